package managed

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// narrowings are changes of a compiled policy, or of its binding, after which it leaves out requests. Each gives the
// kind and the path of what is set.
var narrowings = []struct {
	kind  string
	path  []string
	value any
}{
	{"ValidatingAdmissionPolicy", []string{"spec", "matchConstraints", "namespaceSelector"}, map[string]any{"matchLabels": map[string]any{"held": "yes"}}},
	{"ValidatingAdmissionPolicy", []string{"spec", "matchConstraints", "objectSelector"}, map[string]any{"matchExpressions": []any{map[string]any{"key": "free", "operator": "DoesNotExist"}}}},
	{"ValidatingAdmissionPolicy", []string{"spec", "matchConstraints", "excludeResourceRules"}, []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"*"}, "operations": []any{"*"}, "resources": []any{"configmaps"}}}},
	{"ValidatingAdmissionPolicy", []string{"spec", "matchConditions"}, []any{map[string]any{"name": "none", "expression": "false"}}},
	{"ValidatingAdmissionPolicy", []string{"spec", "paramKind"}, map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
	{"ValidatingAdmissionPolicy", []string{"spec", "validations"}, []any{map[string]any{"expression": "true"}}},
	{"ValidatingAdmissionPolicy", []string{"metadata", "deletionTimestamp"}, "2030-01-01T00:00:00Z"},
	{"ValidatingAdmissionPolicyBinding", []string{"spec", "matchResources"}, map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"held": "yes"}}}},
	{"ValidatingAdmissionPolicyBinding", []string{"spec", "paramRef"}, map[string]any{"name": "x", "parameterNotFoundAction": "Allow"}},
	{"ValidatingAdmissionPolicyBinding", []string{"spec", "validationActions"}, []any{"Audit"}},
	{"ValidatingAdmissionPolicyBinding", []string{"metadata", "deletionTimestamp"}, "2030-01-01T00:00:00Z"},
}

// MC-3, MC-5: a policy that was narrowed in the cluster does not count as enforced: neither in a prediction, nor when a
// cluster is verified before the grants are applied.
func TestNarrowedPolicies(t *testing.T) {
	result, err := compiled(t, policy)
	if err != nil {
		t.Fatal(err)
	}
	decide := func(objects []*unstructured.Unstructured) Answer {
		t.Helper()
		var documents []manifests.Document
		for _, o := range objects {
			documents = append(documents, manifests.Of(o))
		}
		there, err := NewEnforced(documents, "master")
		if err != nil {
			t.Fatal(err)
		}
		got, err := there.Decide(t.Context(), ann(Question{Verb: "create", Kind: "configmaps", Namespace: "team", Object: object("v1", "ConfigMap", map[string]any{"name": "big"})}))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	verify := func(objects []*unstructured.Unstructured) error {
		var there []runtime.Object
		for _, o := range objects {
			there = append(there, o)
		}
		return (&Cluster{client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), there...)}).unchanged(t.Context(), result)
	}
	whole, err := Objects(slices.Concat(result.Policies, result.Grants))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decide(whole), verify(whole); got.Decision != "Deny" || err != nil {
		t.Errorf("as compiled: %+v, %v", got, err)
	}
	for _, n := range narrowings {
		changed, err := Objects(slices.Concat(result.Policies, result.Grants))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range changed {
			if o.GetKind() == n.kind {
				if err := unstructured.SetNestedField(o.Object, n.value, n.path...); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := decide(changed); got.Decision != "Allow" {
			t.Errorf("%s %v counts as enforced: %+v", n.kind, n.path, got)
		}
		if verify(changed) == nil {
			t.Errorf("%s %v is verified", n.kind, n.path)
		}
	}
}
