package ruleset

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// PO-20: a deny of delete reaches eviction, in decisions, in who-can and in what counts as held.
func TestDenyOfDeleteReachesEviction(t *testing.T) {
	many := rules{allow("*", "*"), deny("delete", "pods")}
	w := refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{
		"denied":  many,
		"some":    {allow("*", "*"), {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"Pod"}, When: "a"}},
		"both":    {allow("*", "*"), {Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"*"}, When: "a"}},
		"named":   {allow("*", "*"), {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, ResourceNames: []string{"db"}}},
		"nodes":   {allow("*", "*"), deny("delete", "nodes")},
		"deleter": {allow("delete", "pods")},
		"creator": {allow("create", "pods/eviction")},
	})
	ix := Build(inputOf(w))
	evict := func(who, name string) authorizer.AttributesRecord {
		a := in("hammer", who, "create", "pods")
		a.Subresource, a.Name = "eviction", name
		return a
	}
	for _, test := range []struct {
		who, pod string
		want     Certainty
		byDelete []bool
	}{
		{"denied", "web", Never, nil}, {"some", "web", Sometimes, []bool{true}}, {"both", "web", Sometimes, []bool{false, true}},
		{"named", "web", Always, nil}, {"named", "db", Never, nil}, {"nodes", "web", Always, nil},
		{"deleter", "web", Never, nil}, // to be allowed to delete is not to be allowed to evict
		{"creator", "web", Always, nil},
	} {
		v := ix.Decide(evict(test.who, test.pod))
		var byDelete []bool
		for _, c := range v.Conditions {
			byDelete = append(byDelete, c.ByDelete())
		}
		if v.Certainty != test.want || !slices.Equal(byDelete, test.byDelete) {
			t.Errorf("%s evicts %s: %v by delete %v, want %v %v", test.who, test.pod, v.Certainty, byDelete, test.want, test.byDelete)
		}
	}
	found := false
	ix.Everyone(evict("", "web"), func(h Hit) { found = found || h.Effect() == Denies && h.ByDelete() && h.Subject().Name == "denied" })
	if !found {
		t.Error("who-can does not list the deny of delete")
	}
	other := in("hammer", "denied", "create", "pods")
	other.Subresource = "binding"
	if ix.Decide(other).Certainty != Always {
		t.Error("a deny of delete has reached another subresource")
	}

	// The inverse index finds it too, for somebody with many roles.
	crowd := map[string][]policyv1alpha1.PolicyRule{}
	for i := range walkMax * 3 {
		crowd["r"+string(rune('a'+i))] = rules{allow("get", "secrets")}
	}
	crowd["denies"], crowd["allows"] = rules{deny("delete", "pods")}, rules{allow("*", "pods/*")}
	cw := refmodel.PolicyWorld(nil, crowd)
	for _, b := range cw.PolicyBindings {
		for name, entry := range b.RoleBindings {
			entry.UserNames = []string{"edgar"}
			b.RoleBindings[name] = entry
		}
	}
	if got := Build(inputOf(cw)).Decide(evict("edgar", "web")).Certainty; got != Never {
		t.Errorf("with many roles: %v", got)
	}
}
