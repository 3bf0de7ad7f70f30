package policyreview

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// changed makes a remedy's change on an object.
func changed(t testing.TB, content *runtime.RawExtension, change []authz.FieldChange) *runtime.RawExtension {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal(content.Raw, &object); err != nil {
		t.Fatal(err)
	}
	var edits []compare.Edit
	for _, c := range change {
		e := compare.Edit{Path: parsePath(c.Path), Remove: c.Value == ""}
		if !e.Remove {
			if err := json.Unmarshal([]byte(c.Value), &e.Value); err != nil {
				t.Fatal(err)
			}
		}
		edits = append(edits, e)
	}
	raw, err := json.Marshal(compare.Apply(object, edits))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: raw}
}

// parsePath reads a path without keys in quotes.
func parsePath(text string) (path []any) {
	for part := range strings.SplitSeq(text, ".") {
		name, index, ok := strings.Cut(part, "[")
		path = append(path, name)
		if ok {
			path = append(path, int(index[0]-'0'))
		}
	}
	return path
}

// TR-17: the change of the object that a refusal names makes it allowed, on random policies; and there is one whenever
// an object that differs in its labels alone is allowed.
func TestChangeFlipsTheDecision(t *testing.T) {
	h := newHouse(t)
	found := 0
	each(t, h, 160, func(ctx context.Context, _ *refmodel.World, q asked, s ruleset.Subject, o *runtime.RawExtension) {
		if o == nil {
			return
		}
		spec := q.spec(s, o)
		before := h.can(t, ctx, q.namespace, spec)
		if before.Allowed {
			return
		}
		update := q.verb == "update" || q.verb == "patch"
		with := func(content *runtime.RawExtension) bool {
			other := spec
			if other.Content = content; update {
				other.OldContent = o
			}
			return h.can(t, ctx, q.namespace, other).Allowed
		}
		var change []authz.FieldChange
		if r := before.Trace.Remedy; r != nil {
			change = r.Change
		}
		if len(change) > 0 {
			found++
			if !with(changed(t, o, change)) {
				t.Fatalf("%s %+v: refused with %+v", s, q, change)
			}
			for i := range change {
				if smaller := append(append([]authz.FieldChange{}, change[:i]...), change[i+1:]...); with(changed(t, o, smaller)) {
					t.Fatalf("%s %+v: %+v is enough, and it says %+v", s, q, smaller, change)
				}
			}
			return
		}
		for _, other := range q.objects() {
			if nameOf(t, other) == nameOf(t, o) && with(other) {
				t.Fatalf("%s %+v: no change is named, and %s is allowed, not %s", s, q, other.Raw, o.Raw)
			}
		}
	})
	if found < 10 {
		law.TooFew(t, "%d changes: too few to prove anything", found)
	}
}

func nameOf(t testing.TB, content *runtime.RawExtension) string {
	t.Helper()
	var object struct {
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(content.Raw, &object); err != nil {
		t.Fatal(err)
	}
	return object.Metadata.Name
}

// TR-17: the change is the smallest, whatever the condition looks at.
func TestChangeIsSmallest(t *testing.T) {
	for _, c := range []struct{ name, when, object, want string }{
		{"a label", `object.metadata.labels.size == "small"`, `{metadata: {name: web, labels: {size: huge}}}`, `metadata.labels.size: "small"`},
		{"no labels", `object.metadata.?labels.size.orValue("") == "small"`, `{metadata: {name: web}}`, `metadata.labels.size: "small"`},
		{"a key in quotes", `object.metadata.labels["example.com/size"] == "small"`, `{metadata: {name: web}}`, `metadata.labels["example.com/size"]: "small"`},
		{"the caller", `object.metadata.labels.owner == request.user`, `{metadata: {name: web}}`, `metadata.labels.owner: "jane"`},
		{"one of two", `object.metadata.labels.a == "1" || object.metadata.labels.b == "2" && object.metadata.labels.c == "3"`,
			`{metadata: {name: web, labels: {c: "3"}}}`, `metadata.labels.a: "1"`},
		{"two", `object.metadata.labels.b == "2" && object.metadata.labels.c == "3"`, `{metadata: {name: web}}`,
			"metadata.labels.b: \"2\"\nmetadata.labels.c: \"3\""},
		{"five", `object.data.a == "1" && object.data.b == "1" && object.data.c == "1" && object.data.d == "1" && object.data.e == "1"`,
			`{metadata: {name: web}}`, "data.a: \"1\"\ndata.b: \"1\"\ndata.c: \"1\"\ndata.d: \"1\"\ndata.e: \"1\""},
		{"an order", `object.spec.replicas <= 3`, `{metadata: {name: web}, spec: {replicas: 9}}`, `spec.replicas: 3`},
		{"what must not be there", `!has(object.spec.hostNetwork)`, `{metadata: {name: web}, spec: {hostNetwork: true}}`, `spec.hostNetwork`},
		{"an element", `object.spec.containers.all(c, c.image.startsWith("registry.example.com/"))`,
			`{metadata: {name: web}, spec: {containers: [{name: a, image: registry.example.com/a}, {name: b, image: evil}]}}`,
			`spec.containers[1].image: "registry.example.com/"`},
		{"a member", `"example.com/keep" in object.metadata.finalizers`, `{metadata: {name: web, finalizers: [other]}}`, `metadata.finalizers[1]: "example.com/keep"`},
		{"never", `object.metadata.labels.a == "1" && object.metadata.labels.a == "2"`, `{metadata: {name: web}}`, ""},
		{"by name", `object.metadata.name == "db"`, `{metadata: {name: web}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			ctx := h.in(conditional(c.when))
			raw, err := yaml.YAMLToJSON([]byte(c.object))
			if err != nil {
				t.Fatal(err)
			}
			status := h.can(t, ctx, "hammer", authz.SubjectAccessReviewSpec{Verb: "create", ResourceKind: "widgets.example.com", UserName: "jane", Trace: true,
				Content: &runtime.RawExtension{Raw: raw}})
			if status.Allowed || status.Trace.Remedy == nil {
				t.Fatalf("%+v", status)
			}
			var lines []string
			for _, change := range status.Trace.Remedy.Change {
				lines = append(lines, strings.TrimSuffix(change.Path+": "+change.Value, ": "))
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Fatalf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// conditional is a world in which jane may create widgets under a condition.
func conditional(when string) *refmodel.World {
	return &refmodel.World{Master: master,
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: policyv1alpha1.PolicyName},
			Roles: map[string]policyv1alpha1.PolicyRole{"maker": {Rules: []policyv1alpha1.PolicyRule{{
				Verbs: []string{"create"}, APIGroups: []string{"example.com"}, ResourceKinds: []string{"widgets"}, When: when}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
			PolicyRef:    policyv1alpha1.PolicyReference{Namespace: "hammer"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"makers": {RoleName: "maker", UserNames: []string{"jane"}}}}},
	}
}
