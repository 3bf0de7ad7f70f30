package ruleset

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// PO-2: whatever anybody else serves, under whatever plural and kind, a deny rule and a negation keep their names, and
// an allow rule that names something built in does not get wider.
func TestNamesCannotBeTakenAway(t *testing.T) {
	builtin := []matching.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "secrets", Kind: "Secret", Builtin: true}, {Resource: "pods", Kind: "Pod", Builtin: true}}
	hostile := append(slices.Clone(builtin),
		matching.Served{Group: "evil.io", Resource: "configmap", Kind: "Thing"}, matching.Served{Group: "evil.io", Resource: "secret", Kind: "Other"}, matching.Served{Group: "evil.io", Resource: "things", Kind: "Secrets"},
		matching.Served{Group: "evil.io", Resource: "pods", Kind: "Harmless"}, matching.Served{Group: "evil.io", Resource: "pod", Kind: "Pods"},
		matching.Served{Resource: "secret", Kind: "Secret2"}, matching.Served{Resource: "secrets", Kind: "Harmless"}) // as if another server spoke for a group of ours
	for _, test := range []struct {
		name            string
		rules           rules
		group, resource string
		want            Certainty
	}{
		{"deny by kind", rules{allow("get", "*"), deny("get", "ConfigMap")}, "", "configmaps", Never},
		{"deny by plural", rules{allow("get", "*"), deny("get", "secrets")}, "", "secrets", Never},
		{"negation of a kind", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Secret"}}}, "", "secrets", Never},
		{"negation of a plural", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-secrets"}}}, "", "secrets", Never},
		{"and everything else stays", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-secrets"}}}, "", "pods", Always},
		{"an exception of a deny", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Pod"}}}, "", "pods", Always},
		{"is not for others", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Pod"}}}, "evil.io", "pod", Never},
		{"whatever their plural", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-pods"}}}, "evil.io", "pods", Never},
		{"allow by plural", rules{allow("get", "pods")}, "", "pods", Always},
		{"does not reach another group", rules{allow("get", "pods")}, "evil.io", "pods", Never},
		{"nor another's kind", rules{allow("get", "pods")}, "evil.io", "pod", Never},
		{"allow by kind", rules{allow("get", "Pod")}, "", "pods", Always},
		{"does not reach another's plural", rules{allow("get", "Pod")}, "evil.io", "pod", Never},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, served := range [][]matching.Served{builtin, hostile} {
				in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": test.rules}, nil))
				in.Kinds = matching.NewKinds(served)
				a := ask("alice", "get", test.resource)
				a.APIGroup = test.group
				if got := Build(in).Decide(a).Certainty; got != test.want {
					t.Errorf("%v with %d served, want %v", got, len(served), test.want)
				}
			}
		})
	}
}

// PO-2: a resource whose plural nobody can guess is denied by its kind from the moment that it is known.
func TestIrregularPlural(t *testing.T) {
	in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {allow("get", "*"), deny("get", "Ox")}}, nil))
	a := ask("alice", "get", "oxen")
	a.APIGroup = "farm.io"
	before := Build(in)
	after := before.Apply(SetKinds(matching.NewKinds([]matching.Served{{Group: "farm.io", Resource: "oxen", Kind: "Ox"}})))
	if x, y := before.Decide(a).Certainty, after.Decide(a).Certainty; x != Always || y != Never {
		t.Errorf("before it is served %v, after %v", x, y)
	}
}

// PO-10: custom resources that belong to no namespace can be taken out together, whatever they are called, as they come
// and go; one that is called like that takes nothing along.
func TestClusterScoped(t *testing.T) {
	served := []matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "nodes", Kind: "Node", Builtin: true}, {Group: "ex.io", Resource: "fleets", Kind: "Fleet"}, {Group: "ex.io", Resource: "widgets", Kind: "Widget"}, {Group: "ex.io", Resource: "cluster-scoped", Kind: "Trap"}}
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-" + matching.ClusterScoped}}
	in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"alice": {rule}, "dora": {allow("*", "*"), deny("*", matching.ClusterScoped)}, "bob": {allow("*", matching.ClusterScoped)},
	}, nil))
	in.Kinds = matching.NewKinds(served)
	before := Build(in)
	after := before.Apply(SetKinds(matching.NewKinds(served).Scoped([]schema.GroupResource{{Group: "ex.io", Resource: "fleets"}, {Resource: "nodes"}, {Group: "ex.io", Resource: "unknown"}})))
	for _, tt := range []struct {
		who, group, resource, sub string
		before, after             Certainty
	}{
		{"alice", "ex.io", "fleets", "", Always, Never},
		{"alice", "ex.io", "fleets", "status", Always, Never},
		{"alice", "ex.io", "widgets", "", Always, Always},
		{"alice", "ex.io", "cluster-scoped", "", Always, Always},
		{"alice", "", "pods", "", Always, Always},
		{"alice", "", "nodes", "", Always, Always}, // built in: roles name them
		{"dora", "ex.io", "fleets", "", Always, Never},
		{"dora", "ex.io", "widgets", "", Always, Always},
		{"bob", "ex.io", "fleets", "", Never, Never},
	} {
		a := ask(tt.who, "get", tt.resource)
		a.APIGroup, a.Subresource = tt.group, tt.sub
		if got := before.Decide(a).Certainty; got != tt.before {
			t.Errorf("%+v before: %v", tt, got)
		}
		if got := after.Decide(a).Certainty; got != tt.after {
			t.Errorf("%+v after: %v", tt, got)
		}
	}
}
