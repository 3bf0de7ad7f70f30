package managed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// both are a server of ours and a cluster for which the same policy was compiled.
func both(t *testing.T, text string, accept ...string) (*offline.Host, *Enforced) {
	t.Helper()
	documents, err := manifests.Read([]string{"-"}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := Compile(host, accept)
	if err != nil || len(result.Impossible()) > 0 {
		t.Fatalf("%v, %+v", err, result.Impossible())
	}
	there, err := FromCompiled(result, documents, "master")
	if err != nil {
		t.Fatal(err)
	}
	return host, there
}

// here asks the server of ours.
func here(t *testing.T, host *offline.Host, q Question) (allowed bool, why string) {
	t.Helper()
	spec := authz.SubjectAccessReviewSpec{Verb: q.Verb, ResourceKind: q.Kind, ResourceName: q.Name}
	content, old := q.Object, q.OldObject
	if content == nil {
		content, old = old, nil
	}
	for object, to := range map[*map[string]any]**runtime.RawExtension{&content: &spec.Content, &old: &spec.OldContent} {
		if *object != nil {
			raw, err := json.Marshal(*object)
			if err != nil {
				t.Fatal(err)
			}
			*to = &runtime.RawExtension{Raw: raw}
		}
	}
	status, err := host.Ask(t.Context(), q.User, q.Namespace, spec)
	if err != nil {
		t.Fatal(err)
	}
	return status.Allowed, status.DenyReason + status.EvaluationError
}

// editor may write everything below, by RBAC, as every user of the tests.
const editor = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: editor}
rules:
- {apiGroups: ["", apps, batch], resources: [configmaps, pods, namespaces, deployments, cronjobs, statefulsets], verbs: [create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keepers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kim}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: owners, namespace: master}
rules: [{verbs: ["granular:example.com/net"], resourceKinds: [pods, deployments.apps]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: owners, namespace: master}
roleRef: {namespace: master, name: owners}
userNames: [olga]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: owners, namespace: team}
roleRef: {namespace: master, name: owners}
userNames: [tim]
`

// guarded is a random policy of protected attributes and an exclusive field.
func guarded(r *rand.Rand) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	roles := []string{"{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}", "{apiGroup: authorization.proviso.dev, kind: Role, namespace: master, name: owners}"}
	text := editor + keepers
	for i := range 1 + r.IntN(4) {
		place, kind := "", "ClusterProtectedAttribute"
		if r.IntN(3) == 0 {
			place, kind = ", namespace: team", "ProtectedAttribute"
		}
		text += fmt.Sprintf("---\napiVersion: policy.proviso.dev/v1alpha1\nkind: %s\nmetadata: {name: p%d%s}\nattributeKind: %s\nattributeName: %s\n%s%s%sroleRef: %s\n", kind, i, place,
			pick("Label", "Label", "Annotation"), pick("env", "env", "tier", "example.com/a", "example.com/*"),
			pick("", "protectedValues: [prod]\n", "protectedValues: [prod, test]\nunlistedValues: Forbidden\n"),
			pick("", "", "resources: [pods]\n", "resources: [namespaces, deployments.apps]\n"), pick("", "", "scope: ObjectOnly\n"), pick(roles...))
	}
	return text + pick("", exclusive, strings.Replace(exclusive, ", exclusiveWhen: self == true", "", 1))
}

type place struct{ kind, apiVersion, name string }

// written is a random object of a kind.
func written(r *rand.Rand, p place, namespace string) map[string]any {
	metadata := func() map[string]any {
		m := map[string]any{}
		for _, attribute := range []string{"labels", "annotations"} {
			values := map[string]any{}
			for _, key := range []string{"env", "tier", "example.com/a", "example.com/b", "free"} {
				if r.IntN(4) == 0 {
					values[key] = []string{"prod", "test", "dev"}[r.IntN(3)]
				}
			}
			if len(values) > 0 || r.IntN(4) == 0 {
				m[attribute] = values
			}
		}
		return m
	}
	spec := func() map[string]any {
		s := map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}
		if r.IntN(4) == 0 {
			s["hostNetwork"] = r.IntN(2) == 0
		}
		if r.IntN(4) == 0 {
			s["volumes"] = []any{map[string]any{"name": "v", "ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"metadata": metadata(), "spec": map[string]any{}}}}}
		}
		return s
	}
	template := func() map[string]any { return map[string]any{"metadata": metadata(), "spec": spec()} }
	o := map[string]any{"apiVersion": p.apiVersion, "kind": p.name, "metadata": metadata()}
	switch p.name {
	case "Pod":
		o["spec"] = spec()
	case "Deployment", "StatefulSet":
		o["spec"] = map[string]any{"selector": map[string]any{}, "template": template()}
	case "CronJob":
		o["spec"] = map[string]any{"schedule": "* * * * *", "jobTemplate": map[string]any{"metadata": metadata(), "spec": map[string]any{"template": template()}}}
	}
	m, _ := o["metadata"].(map[string]any)
	if m["name"] = "x"; namespace != "" {
		m["namespace"] = namespace
	}
	return o
}

// MC-4, MC-7: what is compiled of random protected attributes and exclusive fields, in the evaluator of Kubernetes,
// allows nothing that the engine refuses, and refuses nothing else: but exclusive fields of new objects, whose defaults
// it does not know. PROVISO_MANAGED_LAW is how many requests there are.
func TestCompiledGuardsLaw(t *testing.T) {
	total, err := strconv.Atoi(cmp.Or(os.Getenv("PROVISO_MANAGED_LAW"), "4000"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := []place{{"configmaps", "v1", "ConfigMap"}, {"pods", "v1", "Pod"}, {"namespaces", "v1", "Namespace"}, {"deployments.apps", "apps/v1", "Deployment"},
		{"cronjobs.batch", "batch/v1", "CronJob"}, {"statefulsets.apps", "apps/v1", "StatefulSet"}}
	counts := map[string]int{}
	for seed, n := uint64(1), 0; n < total; seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		text := guarded(r)
		host, there := both(t, text, "master/owners")
		for range min(500, total-n) {
			n++
			p, namespace := kinds[r.IntN(len(kinds))], []string{"team", "other"}[r.IntN(2)]
			in := namespace
			if p.name == "Namespace" {
				namespace, in = "", ""
			}
			q := Question{User: &user.DefaultInfo{Name: []string{"kim", "olga", "tim", "ann"}[r.IntN(4)], Groups: []string{user.AllAuthenticated}}, Verb: "create", Kind: p.kind, Namespace: namespace,
				Object: written(r, p, in)}
			if r.IntN(3) > 0 {
				q.Verb, q.Name, q.OldObject = "update", "x", written(r, p, in)
				if r.IntN(3) == 0 {
					q.Object["metadata"] = q.OldObject["metadata"]
				}
			}
			want, why := here(t, host, q)
			got, err := there.Decide(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(why, "too expensive") {
				counts["not known here"]++ // a review does not evaluate what a request would be checked for in Go
				continue
			}
			allowed := got.Decision == "Allow"
			counts[fmt.Sprintf("%v %v", want, allowed)]++
			if allowed == want || want && q.Verb == "create" && strings.Contains(got.Reason, "hostNetwork") {
				continue
			}
			old, _ := json.Marshal(q.OldObject)
			object, _ := json.Marshal(q.Object)
			t.Fatalf("seed %d: %s may %s %s in %q: %v here (%s), there %+v\n%s\n%s\n%s", seed, q.User.GetName(), q.Verb, q.Kind, namespace, want, why, got, old, object, text)
		}
	}
	t.Log(counts)
	if counts["true true"] == 0 || counts["false false"] == 0 {
		t.Error("it decides nothing")
	}
}

// MC-4: a Binding is merged into its pod, which admission does not see. What sets a value there may replace one that is
// protected: it is refused to all but members of every role, and allowed without the attribute.
func TestBindingsThatCarryAttributes(t *testing.T) {
	const bind = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: binder}
rules: [{apiGroups: [""], resources: [pods/binding], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: binder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: binder}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
`
	_, there := both(t, bind+keepers+editor+strings.Replace(protection, "attributeName: env", "attributeName: env\nprotectedValues: [prod]", 1), "master/owners")
	for who, allowed := range map[string]bool{"kim": true, "ann": false} {
		for labels, want := range map[string]bool{"env": allowed, "free": true} {
			q := Question{User: &user.DefaultInfo{Name: who, Groups: []string{user.AllAuthenticated}}, Verb: "create", Kind: "pods/binding", Namespace: "team", Name: "x",
				Object: map[string]any{"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": "x", "labels": map[string]any{labels: "test"}}, "target": map[string]any{"name": "n"}}}
			if got, err := there.Decide(t.Context(), q); err != nil || (got.Decision == "Allow") != want {
				t.Errorf("%s with %s: %+v, %v", who, labels, got, err)
			}
		}
	}
}
