package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// boundInEveryScope is a world in which ursula has a role in each scope, and a group of hers one in the cluster.
func boundInEveryScope() Input {
	input := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"ursula": {allow("get", "pods")}}, map[string][]policyv1alpha1.PolicyRule{"ursula": {allow("list", "pods")}, "other": {allow("list", "pods")}}))
	crb(&input, "ursula")
	input.ClusterRoleBindings = append(input.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ops"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "ops"},
		Subjects: []rbacv1.Subject{{Kind: "Group", Name: "ops"}}})
	input.ClusterRoles = append(input.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "ops"}})
	input.Roles = []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "local"}}}
	input.RoleBindings = []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "local"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "local"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "ursula"}}}}
	return input
}

// PO-16: the roles that somebody has, tier by tier and scope by scope, through groups as well.
func TestRolesOf(t *testing.T) {
	ix := Build(boundInEveryScope())
	ursula := &user.DefaultInfo{Name: "ursula", Groups: []string{"ops"}}
	all := []Tier{TierMaster, TierNamespace, TierRBAC}
	for _, tt := range []struct {
		who       user.Info
		namespace string
		tiers     []Tier
		want      []string
	}{
		{ursula, "hammer", all, []string{"master/ursula", "hammer/ursula", "/pods", "/ops", "hammer/local"}},
		{ursula, "anvil", all, []string{"master/ursula", "/pods", "/ops"}},
		{ursula, "", all, []string{"master/ursula", "/pods", "/ops"}},
		{ursula, "hammer", []Tier{TierNamespace}, []string{"hammer/ursula"}},
		{&user.DefaultInfo{Name: "other"}, "hammer", all, []string{"hammer/other"}},
		{&user.DefaultInfo{Name: "nobody"}, "hammer", all, nil},
	} {
		var got []string
		ix.RolesOf(tt.who, tt.namespace, tt.tiers, func(_ Scope, d *Definition) bool {
			got = append(got, d.Ref.Namespace+"/"+d.Ref.Name)
			return true
		})
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s in %q, tiers %v: %v, want %v", tt.who.GetName(), tt.namespace, tt.tiers, got, tt.want)
		}
	}
	seen := 0
	ix.RolesOf(ursula, "hammer", all, func(Scope, *Definition) bool { seen++; return false })
	if seen != 1 {
		t.Errorf("visited %d roles although the first was enough", seen)
	}
}

// PO-5: whether a subject has exactly this role anywhere.
func TestBoundAnywhere(t *testing.T) {
	ix := Build(boundInEveryScope())
	ursula := Subject{Name: "ursula"}
	for ref, want := range map[RoleRef]bool{
		{PolicyRole, "master", "ursula"}: true, {PolicyRole, "hammer", "ursula"}: true, {Kind: ClusterRole, Name: "pods"}: true, {Role, "hammer", "local"}: true,
		{PolicyRole, "hammer", "other"}: false, {Kind: ClusterRole, Name: "ops"}: false, {Kind: ClusterRole, Name: "none"}: false,
	} {
		if got := ix.BoundAnywhere(ref, ursula); got != want {
			t.Errorf("%v: %v, want %v", ref, got, want)
		}
	}
	if ix.BoundAnywhere(RoleRef{PolicyRole, "master", "ursula"}, Subject{Name: "nobody"}) {
		t.Error("nobody has no role")
	}
}

// A rule says in one line what it is about, of Policy and of RBAC.
func TestDescribe(t *testing.T) {
	rule := deny("delete", "pods")
	rule.APIGroups, rule.ResourceNames = []string{""}, strings.Split("a,b,c,d,e,f,g,h,i,j", ",")
	input := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"ursula": {rule}}, nil))
	crb(&input, "rita")
	ix := Build(input)
	request := ask("ursula", "delete", "pods")
	request.Name = "a"
	if got, want := ix.PolicyMaster(request).Deny.Describe(), "deny verbs delete of pods in groups core named a,b,c,d,e,f,g,h and 2 more (not this)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := ix.RBAC(ask("rita", "get", "pods")).Allow.Describe(), "allow verbs * of pods in groups core"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// SV-8: an entry that does not say which role it is of denies everything to those whom it binds, and to nobody else,
// until it is gone.
func TestEntryOfAnUnreadableRole(t *testing.T) {
	input := inputOf(refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{"alice": {allow("*", "*")}, "bob": {allow("*", "*")}}))
	c := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "odd"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
		"odd": {UserNames: []string{"alice"}, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			policyv1alpha1.AnnotationQuarantined: "from the future", policyv1alpha1.AnnotationUnreadable: policyv1alpha1.UnreadableRole}}},
	}}
	before := Build(input)
	with := before.Apply(Put(c))
	after := with.Apply(Delete(c))
	for who, want := range map[string][3]Certainty{"alice": {Always, Never, Always}, "bob": {Always, Always, Always}} {
		for i, ix := range []*Index{before, with, after} {
			if got := ix.Decide(in("hammer", who, "get", "pods")).Certainty; got != want[i] {
				t.Errorf("%s, step %d: %v, want %v", who, i, got, want[i])
			}
		}
	}
}

// PO-18: what is deleted leaves nothing behind.
func TestNothingIsLeft(t *testing.T) {
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"ursula": {allow("*", "*")}}, map[string][]policyv1alpha1.PolicyRule{"edgar": {deny("*", "pods")}})
	ix := Build(inputOf(w))
	for _, b := range w.PolicyBindings {
		ix = ix.Apply(Delete(b))
	}
	for _, p := range w.Policies {
		ix = ix.Apply(Delete(p))
	}
	if got := fmt.Sprint(ix.containers.Len(), ix.policies.Len(), ix.subjects.Len(), ix.ids.Len()); got != "0 0 0 0" {
		t.Errorf("containers, policies, subjects and roles that are left: %s", got)
	}
}
