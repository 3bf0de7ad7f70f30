package server

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProtectedByEffect: a protection holds for whatever becomes part of an object, by whichever way it gets there
// (PA-13).
func TestProtectedByEffect(t *testing.T) {
	t.Parallel()
	f := &fieldWorld{s: bare.get(t), clients: map[string]*http.Client{}}
	all := []string{"*"}
	for _, user := range []string{"env-outsider", "env-member", "system:serviceaccount:kube-system:statefulset-controller", "system:serviceaccount:kube-system:addon"} {
		f.grant(t, user, all, all, "get", "create", "update", "patch")
	}
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/env-managers", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"env-managers"}}`)
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/env-managers", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"env-managers"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"env-managers"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"env-member"}]}`)
	f.apply(t, "/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes/env", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterProtectedAttribute","metadata":{"name":"env"},
"attributeKind":"Label","attributeName":"env","protectedValues":["prod"],"roleRef":{"kind":"ClusterRole","name":"env-managers"}}`)
	f.s.accountForPods(t)
	f.settled(t, "the protection", func() bool {
		labelled := `{"metadata":{"name":"x","labels":{"env":"prod"}}}`
		return f.as(t, "env-outsider", http.MethodPost, dryRun("/api/v1/namespaces/default/configmaps"), jsonBody, labelled).code == 403 &&
			f.as(t, "env-member", http.MethodPost, dryRun("/api/v1/namespaces/default/configmaps"), jsonBody, labelled).code == 201
	})
	t.Run("bindings", f.protectedBindings)
	t.Run("revisions", f.protectedRevisions)
	t.Run("conversion", f.protectedConversion)
}

// PA-5, PA-13: a Binding is merged into its pod, so that it is compared with what the pod has.
func (f *fieldWorld) protectedBindings(t *testing.T) {
	for name, labels := range map[string]string{"prod": `"env":"prod"`, "prod-too": `"env":"prod"`, "prod-three": `"env":"prod"`, "free": "", "stale": ""} {
		f.admin(t, http.MethodPost, "/api/v1/namespaces/default/pods", jsonBody, `{"metadata":{"name":"`+name+`","labels":{`+labels+`}},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	}
	body := func(pod, metadata string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + pod + `"` + metadata + `},"target":{"apiVersion":"v1","kind":"Node","name":"env-node"}}`
	}
	bind := func(user, pod, metadata string) answer {
		return f.as(t, user, http.MethodPost, namespaced("pods", pod)+"/binding", jsonBody, body(pod, metadata))
	}
	const dev, prod = `,"labels":{"env":"dev"}`, `,"labels":{"env":"prod"}`
	refused(t, "sets the value", bind("env-outsider", "free", prod), `label env=prod is protected by ClusterProtectedAttribute "env"; changing it requires being bound to ClusterRole "env-managers"`)
	refused(t, "replaces the value", bind("env-outsider", "prod", dev), "label env=prod is protected")
	refused(t, "replaces the value by the older resource", f.as(t, "env-outsider", http.MethodPost, "/api/v1/namespaces/default/bindings", jsonBody, body("prod", dev)), "label env=prod is protected")
	allowed(t, "leaves the value", bind("env-outsider", "prod-too", prod))
	allowed(t, "sets a free value where there is none", bind("env-outsider", "free", dev))
	allowed(t, "a member replaces the value", bind("env-member", "prod", dev))
	if labels := f.admin(t, http.MethodGet, namespaced("pods", "prod"), jsonBody, "").body["metadata"].(map[string]any)["labels"].(map[string]any); labels["env"] != "dev" {
		t.Errorf("the labels of a Binding are not merged into the pod any more: %v", labels)
	}
	if a := bind("env-outsider", "stale", `,"resourceVersion":"1"`+dev); a.code != http.StatusConflict {
		t.Errorf("another state of the pod than was compared: %d %s", a.code, a.message)
	}
	if a := bind("env-outsider", "nowhere", dev); a.code != http.StatusNotFound {
		t.Errorf("a pod that is not there: %d %s", a.code, a.message)
	}
	allowed(t, "without labels", bind("env-outsider", "prod-three", ""))
}

// PA-13: a stateful set makes its pods from the data of a ControllerRevision.
func (f *fieldWorld) protectedRevisions(t *testing.T) {
	revision := func(user, data string) answer {
		return f.as(t, user, http.MethodPost, dryRun("/apis/apps/v1/namespaces/default/controllerrevisions"), jsonBody, `{"metadata":{"name":"r"},"revision":1,"data":`+data+`}`)
	}
	const prod = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"env":"prod"}}}}}`
	const where = "label env=prod in .data.spec."
	refused(t, "template", revision("env-outsider", prod), where+"template.metadata is protected")
	refused(t, "in other letters", revision("env-outsider", `{"spec":{},"SPEC":{"TEMPLATE":{"MetaData":{"LABELS":{"env":"prod"}}}}}`), where+"template.metadata is protected")
	refused(t, "claim template", revision("env-outsider", `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"d","labels":{"env":"prod"}}}]}}`), where+"volumeClaimTemplates[d] is protected")
	refused(t, "cannot be read", revision("env-outsider", `{"spec":{"template":"x"}}`), "could not be examined")
	refused(t, "an account of kube-system that makes none", revision("system:serviceaccount:kube-system:addon", prod), where)
	allowed(t, "another value", revision("env-outsider", strings.Replace(prod, "prod", "dev", 1)))
	allowed(t, "data of another sort", revision("env-outsider", `{"any":"thing"}`))
	allowed(t, "a member", revision("env-member", prod))
	allowed(t, "the controller", revision("system:serviceaccount:kube-system:statefulset-controller", prod))
	f.admin(t, http.MethodPost, "/apis/apps/v1/namespaces/default/controllerrevisions", jsonBody, `{"metadata":{"name":"kept"},"revision":1,"data":`+prod+`}`)
	allowed(t, "data that stays as it is", f.as(t, "env-outsider", http.MethodPatch, dryRun("/apis/apps/v1/namespaces/default/controllerrevisions/kept"), mergePatch, `{"metadata":{"labels":{"free":"1"}}}`))
}

// sneakyConversion is a conversion webhook that adds labels to what it converts, if the object's own label asks for it.
func sneakyConversion(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
		labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
		version := review.Request.DesiredAPIVersion[strings.Index(review.Request.DesiredAPIVersion, "/")+1:]
		if label, ok := labels["sneak-"+version].(string); ok {
			key, value, _ := strings.Cut(label, ".")
			labels[key] = value
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": map[string]any{
		"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects}})
}

// PA-13, FP-16: labels agree in every version in which an object is stored or served, whatever its conversion webhook
// does.
func (f *fieldWorld) protectedConversion(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(sneakyConversion))
	defer hook.Close()
	f.declare(t, "guarded", `{"resources":["*"],"field":".metadata.labels[guarded]","permission":"example.com/guard","exclusive":true}`)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	var versions []string
	for name, storage := range map[string]bool{"v1": false, "v2": true, "v3": false} {
		versions = append(versions, fmt.Sprintf(`{"name":%q,"served":%v,"storage":%v,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, name != "v2", storage))
	}
	f.apply(t, definitions+"/doubles.fields.example.com", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"doubles.fields.example.com"},
"spec":{"group":"fields.example.com","scope":"Namespaced","names":{"plural":"doubles","kind":"Double"},"versions":[`+strings.Join(versions, ",")+`],
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"`+hook.URL+`","caBundle":"`+ca+`"}}}}}`)
	make := func(user, labels string) answer {
		return f.as(t, user, http.MethodPost, dryRun("/apis/fields.example.com/v1/namespaces/default/doubles"), jsonBody,
			`{"apiVersion":"fields.example.com/v1","kind":"Double","metadata":{"name":"d","labels":{`+labels+`}}}`)
	}
	f.settled(t, "the definition", func() bool {
		return make("env-member", "").code == 201 && make("env-outsider", `"guarded":"1"`).code == 403
	})
	refused(t, "added in the stored version", make("env-outsider", `"sneak-v2":"env.prod"`), "converted to version v2: label env=prod is protected")
	refused(t, "added in a served version", make("env-outsider", `"sneak-v3":"env.prod"`), "converted to version v3: label env=prod is protected")
	refused(t, "added on the way back", make("env-outsider", `"sneak-v1":"env.prod"`), "converted to version v1: label env=prod is protected")
	refused(t, "an exclusive field", make("env-outsider", `"sneak-v2":"guarded.1"`), "field .metadata.labels[guarded] needs granular:example.com/guard")
	allowed(t, "another value", make("env-outsider", `"sneak-v2":"env.dev"`))
	allowed(t, "nothing added", make("env-outsider", `"free":"1"`))
	allowed(t, "a member", make("env-member", `"sneak-v2":"env.prod"`))
	hook.Close()
	if a := make("env-outsider", `"free":"1"`); a.code < 400 {
		t.Errorf("without its webhook: %d", a.code)
	}
}
