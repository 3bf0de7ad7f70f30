package ruleset

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// PO-20: who is denied to delete something is found by a look at his roles.
func TestDeniesDelete(t *testing.T) {
	ix := Build(inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"ursula": {deny("delete", "pods")},
		"reader": {deny("get", "pods"), allow("delete", "pods")},
		"starry": {deny("*", "*")},
		"execs":  {deny("exec", "pods")},
		"logs":   {deny("delete", "pods/log")},
	}, map[string][]policyv1alpha1.PolicyRule{
		"edgar": {deny("deletecollection", "Pod")},
		"not":   {{Deny: true, Verbs: []string{"*", "-delete"}, ResourceKinds: []string{"*"}}},
	})))
	for who, want := range map[string]struct{ hammer, anvil bool }{
		"ursula": {true, true}, "starry": {true, true}, "logs": {true, true}, "reader": {}, "execs": {}, "nobody": {}, "edgar": {true, false}, "not": {},
	} {
		u := &user.DefaultInfo{Name: who}
		if hammer, anvil := ix.DeniesDelete(u, "hammer"), ix.DeniesDelete(u, "anvil"); hammer != want.hammer || anvil != want.anvil {
			t.Errorf("%s: hammer %v, anvil %v, want %+v", who, hammer, anvil, want)
		}
		if in := ix.DeniesDeleteIn(u); slices.Contains(in, "hammer") != (who == "edgar") {
			t.Errorf("%s: denied in %v", who, in)
		}
	}
	u := &user.DefaultInfo{Name: "nobody"}
	if n := testing.AllocsPerRun(100, func() { ix.DeniesDelete(u, "hammer") }); n > 0 {
		t.Errorf("%v allocations for a caller to whom no deny applies", n)
	}
}

// Nobody is denied a delete whom DeniesDelete and MayDeny do not find.
func TestLawDeniesDeleteMissesNobody(t *testing.T) {
	denied := 0
	law.Rounds(t, 100, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 30 {
			q := pick.Request()
			q.Verb, q.ResourceRequest, q.Path, q.Subresource = "delete", true, "", ""
			if q.Resource == "" {
				q.Resource = refmodel.Plurals[0]
			}
			hit, may := ix.MayDeny(q)
			master, local := ix.PolicyMaster(q), ix.PolicyNamespace(q)
			if deny := master.Denies() || local.Denies(); deny != may || may != hit.Found() {
				t.Fatalf("seed %d: %+v: denies %v, found %v", seed, q, deny, may)
			} else if !deny {
				continue
			}
			denied++
			if !ix.DeniesDelete(q.User, q.Namespace) || local.Denies() && !slices.Contains(ix.DeniesDeleteIn(q.User), q.Namespace) {
				t.Fatalf("seed %d: %+v is denied and not found", seed, q)
			}
		}
		return 30
	})
	if denied < 100 {
		law.TooFew(t, "%d denied", denied)
	}
}
