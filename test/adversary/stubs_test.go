package adversary

import (
	"encoding/json"
	"strings"

	"proviso.dev/proviso/test/adversary/game"
)

// stubs are the bodies of kinds that need more than a name.
var stubs = map[string]string{
	"configmaps":                        `{"data": {"k": "CANARY"}}`,
	"secrets":                           `{"data": {"k": "Q0FOQVJZ"}, "stringData": {"k": "CANARY"}}`,
	"pods":                              `{"spec": {"containers": [{"name": "c", "image": "registry.example.com/image"}], "automountServiceAccountToken": false}}`,
	"services":                          `{"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}`,
	"resourcequotas":                    `{"spec": {"hard": {"count/nothing.example.com": "5"}}}`,
	"limitranges":                       `{"spec": {"limits": []}}`,
	"persistentvolumeclaims":            `{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`,
	"leases.coordination.k8s.io":        `{"spec": {"holderIdentity": "x"}}`,
	"networkpolicies.networking.k8s.io": `{"spec": {"podSelector": {}}}`,
	"deployments.apps": `{"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
		"spec": {"containers": [{"name": "c", "image": "registry.example.com/image"}]}}}}`,
	"statefulsets.apps": `{"spec": {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
		"spec": {"containers": [{"name": "c", "image": "registry.example.com/image"}]}}}}`,
	"jobs.batch":                        `{"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/image"}]}}}}`,
	"roles.rbac.authorization.k8s.io":   `{"rules": []}`,
	"roles.authorization.proviso.dev":   `{"rules": [{"verbs": ["get"], "resourceKinds": ["pods"]}]}`,
	"poddisruptionbudgets.policy":       `{"spec": {"maxUnavailable": 0}}`,
	"endpointslices.discovery.k8s.io":   `{"addressType": "IPv4", "endpoints": [], "ports": []}`,
	"priorityclasses.scheduling.k8s.io": `{"value": 1000}`,
	"policies.policy.proviso.dev":       `{}`,
	"controllerrevisions.apps":          `{"revision": 1}`,
	"customresourcedefinitions.apiextensions.k8s.io": `{"spec": {"scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"given": {"type": "string"}}}}}]}}`,
	"pods/eviction":         `{}`,
	"pods/binding":          `{"target": {"kind": "Node", "name": "nowhere"}}`,
	"bindings":              `{"target": {"kind": "Node", "name": "nowhere"}}`,
	"serviceaccounts/token": `{"spec": {"expirationSeconds": 3600}}`,
}

// subKinds are the kinds of what subresources take.
var subKinds = map[string]string{
	"pods/eviction": "policy/v1 Eviction", "pods/binding": "v1 Binding", "bindings": "v1 Binding", "serviceaccounts/token": "authentication.k8s.io/v1 TokenRequest",
	game.Approval: "access.proviso.dev/v1alpha1 AccessDecision", game.Revocation: "access.proviso.dev/v1alpha1 AccessDecision",
}

// stub is a new object of a resource.
func (h *hunt) stub(resource, ns, name, canary string) map[string]any {
	out := map[string]any{}
	if text, ok := stubs[resource]; ok {
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "CANARY", canary)), &out); err != nil {
			panic(resource + ": " + err.Error()) // a constant of this test
		}
	}
	if resource == "secrets" {
		delete(out, "data")
	}
	r := h.resource(resource)
	version := r.Version
	if r.Group != "" {
		version = r.Group + "/" + r.Version
	}
	out["apiVersion"], out["kind"] = version, r.Kind
	if other, ok := subKinds[resource]; ok {
		out["apiVersion"], out["kind"], _ = strings.Cut(other, " ")
	}
	if strings.HasSuffix(r.Kind, "Review") {
		if ns != "" && r.Namespaced {
			put(out, "metadata namespace", ns)
		}
		return out
	}
	if resource == "serviceaccounts/token" {
		return out
	}
	put(out, "metadata name", name)
	if r.Namespaced && ns != "" {
		put(out, "metadata namespace", ns)
	}
	return out
}

// put sets a field, and makes what is missing on the way; nil removes it.
func put(object map[string]any, at string, value any) {
	names := strings.Fields(at)
	for _, name := range names[:len(names)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	if value == nil {
		delete(object, names[len(names)-1])
		return
	}
	object[names[len(names)-1]] = value
}

// patched is a merge patch of edits.
func patched(edits []game.Edit) map[string]any {
	out := map[string]any{}
	for _, e := range edits {
		put(out, e.Path, e.Value)
		if e.Value == nil {
			names := strings.Fields(e.Path)
			last := names[len(names)-1]
			at := out
			for _, name := range names[:len(names)-1] {
				at = at[name].(map[string]any)
			}
			at[last] = nil
		}
	}
	return out
}
