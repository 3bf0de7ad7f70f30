package validate

import (
	"slices"
	"strings"
	"testing"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-2: whoever writes a rule that has no effect is told so; the twin of each differs in that one thing and is silent.
func TestWarnings(t *testing.T) {
	pods := []string{"pods"}
	for _, tc := range []struct {
		name string
		rule policy.PolicyRule
		want string
	}{
		{"a verb that is none", policy.PolicyRule{Verbs: []string{"gett"}, ResourceKinds: pods}, `rules[0].verbs[0]: "gett"`},
		{"a verb", policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: pods}, ""},
		{"a negated verb that is none", policy.PolicyRule{Verbs: []string{"*", "-delet"}, ResourceKinds: pods}, `rules[0].verbs[1]: "-delet"`},
		{"a special verb", policy.PolicyRule{Verbs: []string{"granular:label(example.com)", "impersonate:user-info", "escalate", "-deletecollection"}, ResourceKinds: pods}, ""},
		{"a kind that is not served", policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"podss"}}, `is named "podss"`},
		{"a name of a guarded group", policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"policies"}}, `"policies" does not reach guarded API groups`},
		{"deny of create and deletecollection with names", policy.PolicyRule{Deny: true, Verbs: []string{"create", "deletecollection"}, ResourceKinds: pods, ResourceNames: []string{"web"}}, ""},
		{"create with names", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: pods, ResourceNames: []string{"web"}}, "rules[0].resourceNames: has no effect on create"},
		{"create of a subresource with names", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"pods/exec"}, ResourceNames: []string{"web"}}, ""},
		{"update with names", policy.PolicyRule{Verbs: []string{"update"}, ResourceKinds: pods, ResourceNames: []string{"web"}}, ""},
		{"deletecollection with names", policy.PolicyRule{Verbs: []string{"deletecollection"}, ResourceKinds: pods, ResourceNames: []string{"web"}}, "has no effect on deletecollection"},
		{"get with where", policy.PolicyRule{Verbs: []string{"get", "list"}, ResourceKinds: pods, Where: "resource.x == 1"}, "rules[0]: get is never allowed"},
		{"list with where", policy.PolicyRule{Verbs: []string{"list"}, ResourceKinds: pods, Where: "resource.x == 1"}, ""},
		{"get with an object in when", policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: pods, When: "oldObject.x == 1"}, "get is never allowed"},
		{"get with a request in when", policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: pods, When: `request.user == "edgar"`}, ""},
		// CA-26: what can never hold.
		{"where on a connection", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"pods/exec"}, Where: "resource.x == 1"}, ""},
		{"a deny with where on a connection", policy.PolicyRule{Deny: true, Verbs: []string{"exec"}, ResourceKinds: pods, Where: "resource.x == 1"}, ""},
		{"where on a connection and an eviction", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"pods/exec", "pods/eviction"}, Where: "resource.x == 1"}, ""},
		{"where on what is no connection", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"widgets/exec"}, Where: "resource.x == 1"}, "rules[0].where: is about objects, and such a connection has none: the rule allows nothing"},
		{"a deny with where on what is no connection", policy.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"widgets/exec"}, Where: "resource.x == 1"}, "denies whatever the object is"},
		{"where on a connection and more", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"pods/exec", "pods"}, Where: "resource.x == 1"}, ""},
		{"where with a verb for connections and more", policy.PolicyRule{Verbs: []string{"exec", "create"}, ResourceKinds: pods, Where: "resource.x == 1"}, ""},
		{"where on all but connections", policy.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"-pods/exec"}, Where: "resource.x == 1"}, ""},
		{"where on a scale", policy.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments/scale.apps"}, Where: "resource.x == 1"}, "bodies of another kind"},
		{"when on a scale", policy.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments/scale.apps"}, When: "object.spec.replicas == 1"}, ""},
		{"an object of a connection", policy.PolicyRule{Verbs: []string{"exec"}, ResourceKinds: pods, When: "object.metadata.name == 'x'"}, "rules[0].when: object and oldObject are null"},
		{"the target of a connection", policy.PolicyRule{Verbs: []string{"exec"}, ResourceKinds: pods, When: "object == null && target.metadata.object.x == 'x'"}, ""},
	} {
		got := Warnings([]policy.PolicyRule{tc.rule}, func(r policy.PolicyRule) (unserved, guarded []string) {
			only := func(name string) []string {
				return slices.DeleteFunc(slices.Clone(r.ResourceKinds), func(k string) bool { return k != name })
			}
			return only("podss"), only("policies")
		}, false)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	// RD-4: with conditional reads a get is decided on the object.
	rule := policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: pods, Where: "resource.x == 1"}
	if got := Warnings([]policy.PolicyRule{rule}, func(policy.PolicyRule) (unserved, guarded []string) { return nil, nil }, true); len(got) > 0 {
		t.Errorf("get with where, and conditional reads: %q", got)
	}
}
