package ruleset

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// RD-12: the conditional rules of the master namespace are visited with what they allow of resources that belong to a
// namespace, and of namespaces themselves; others are not.
func TestEverywhere(t *testing.T) {
	when := func(verbs []string, kinds ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: verbs, ResourceKinds: kinds, When: "request.namespace == 'a'"}
	}
	in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"ann":  {when([]string{"get", "exec"}, "pods"), when([]string{"*", "-get"}, "nodes", "namespaces"), when([]string{"update"}, "pods/*")},
		"bob":  {allow("get", "pods")},
		"carl": {when([]string{"*"}, "*", "-pods")},
	}, nil))
	in.Kinds = matching.NewKinds([]matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "nodes", Kind: "Node", Builtin: true}, {Resource: "namespaces", Kind: "Namespace", Builtin: true}})
	ix := Build(in)
	holds := &Holds{Policy: true, Served: scopesOf{schema.GroupResource{Resource: "pods"}: true}}
	for who, want := range map[string][]string{
		"ann":  {"create pods/exec", "get pods", "list namespaces", "update pods/status"},
		"bob":  nil,
		"carl": {"list namespaces"},
	} {
		var q Query
		q.Reset(ix, &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "list", Resource: "namespaces", ResourceRequest: true})
		var got []string
		first := 0
		holds.Everywhere(&q, func(_ Hit, a Action) bool {
			text := fmt.Sprintf("%s %s", a.Verb, a.Resource.Resource)
			if a.Sub != "" {
				text += "/" + a.Sub
			}
			got = append(got, text)
			return true
		})
		holds.Everywhere(&q, func(Hit, Action) bool { first++; return false })
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
		if first > len(got) || first == 0 && len(got) > 0 {
			t.Errorf("%s: %d rules for %q", who, first, got)
		}
	}
	var bound []Subject
	ix.BoundEverywhere(func(s Subject) { bound = append(bound, s) })
	if !slices.Contains(bound, Subject{Name: "ann"}) || !slices.Contains(bound, Subject{Name: "bob"}) {
		t.Errorf("bound: %v", bound)
	}
}
