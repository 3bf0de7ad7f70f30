package escalation

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/refmodel"
)

// PO-12: a deny that certainly holds for the grantee as well does not keep anybody from granting, and every other one
// does: each with a twin that differs in one thing.
func TestSharedDenies(t *testing.T) {
	everybody := policyv1alpha1.PolicyRoleBinding{GroupNames: []string{"system:authenticated"}}
	both := policyv1alpha1.PolicyRoleBinding{UserNames: []string{"hubert", "edgar"}}
	accounts := policyv1alpha1.PolicyRoleBinding{UserNames: []string{"hubert"}, GroupNames: []string{"system:serviceaccounts:hammer"}}
	teams := policyv1alpha1.PolicyRoleBinding{UserNames: []string{"hubert"}, GroupNames: []string{"team-a"}}
	edgar, bot := ruleset.Subject{Name: "edgar"}, ruleset.Subject{Name: "system:serviceaccount:hammer:bot"}
	for _, test := range []struct {
		name     string
		deny     policyv1alpha1.PolicyRule // verbs and kinds are added
		bound    policyv1alpha1.PolicyRoleBinding
		in       string // of the binding; master is the default
		grantees []ruleset.Subject
		tiers    []ruleset.Tier
		want     string // why it is refused; for RBAC as for Policy, if rbac is not set
		rbac     string
	}{
		{name: "everybody is denied", bound: everybody, grantees: []ruleset.Subject{edgar}},
		{name: "everybody is denied, under a condition", deny: policyv1alpha1.PolicyRule{When: `object.metadata.name == "x"`}, bound: everybody, grantees: []ruleset.Subject{edgar}},
		{name: "everybody is denied, some requests", deny: policyv1alpha1.PolicyRule{When: `request.namespace == "hammer"`}, bound: everybody, grantees: []ruleset.Subject{edgar}},
		{name: "the writer is denied, by a condition", deny: policyv1alpha1.PolicyRule{When: `request.user == "hubert"`}, bound: everybody, grantees: []ruleset.Subject{edgar}, want: "denies it under a condition"},
		{name: "the writer is denied, by another condition", deny: policyv1alpha1.PolicyRule{When: `[request].exists(r, r.user == "hubert")`}, bound: everybody, grantees: []ruleset.Subject{edgar}, want: "denies it under a condition"},
		{name: "the writer's node is denied", deny: policyv1alpha1.PolicyRule{AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{SameNodeRestriction: true}}, bound: everybody, grantees: []ruleset.Subject{edgar}, want: "denies it under a condition"},
		{name: "everybody is denied, in the namespace", bound: everybody, in: "hammer", grantees: []ruleset.Subject{edgar}, want: "denied by"},
		{name: "everybody who has logged in is denied", bound: everybody, grantees: []ruleset.Subject{{Name: "system:anonymous"}}, want: "denied by"},
		{name: "and strangers are a group", bound: everybody, grantees: []ruleset.Subject{{Group: true, Name: "system:unauthenticated"}}, want: "denied by"},
		{name: "a role is for whoever has logged in", bound: everybody},
		{name: "the writer alone is denied", bound: policyv1alpha1.PolicyRoleBinding{UserNames: []string{"hubert"}}, grantees: []ruleset.Subject{edgar}, want: "denied by"},
		{name: "the grantee is denied by name", bound: both, grantees: []ruleset.Subject{edgar}},
		{name: "one of two grantees is denied", bound: both, grantees: []ruleset.Subject{edgar, bot}, want: "denied by"},
		{name: "a role has no grantee", bound: both, want: "denied by"},
		{name: "a service account is denied by its group", bound: accounts, grantees: []ruleset.Subject{bot}},
		{name: "a service account of another namespace is not", bound: accounts, grantees: []ruleset.Subject{{Name: "system:serviceaccount:anvil:bot"}}, want: "denied by"},
		{name: "a group is denied by name", bound: teams, grantees: []ruleset.Subject{{Group: true, Name: "team-a"}}},
		{name: "a user may leave a group", bound: teams, grantees: []ruleset.Subject{edgar}, want: "denied by"},
		{name: "RBAC before Policy", bound: everybody, grantees: []ruleset.Subject{edgar}, tiers: []ruleset.Tier{ruleset.TierRBAC, ruleset.TierMaster, ruleset.TierNamespace}, rbac: "denied by"},
	} {
		t.Run(test.name, func(t *testing.T) {
			deny := test.deny
			deny.Deny, deny.Verbs, deny.ResourceKinds = true, []string{"delete"}, []string{"secrets"}
			w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"ban": {deny}}, map[string][]policyv1alpha1.PolicyRule{"admin": {{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}})
			where := "master"
			if test.in != "" {
				where = test.in
			}
			test.bound.RoleName = "ban"
			w.PolicyBindings = []*policyv1alpha1.PolicyBinding{
				{ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"ban": test.bound}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"admin": {RoleName: "admin", UserNames: []string{"hubert"}}}},
			}
			ix := ruleset.Build(inputOf(w))
			grant := Grant{User: &user.DefaultInfo{Name: "hubert", Groups: []string{"system:authenticated"}}, Namespace: "hammer", Grantees: test.grantees, Tiers: test.tiers}
			check := func(what, want string, g Grant) {
				t.Helper()
				err := Covers(ix, g)
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: got %v, want %q", what, err, want)
				}
				g.Lifted = true
				err = Covers(ix, g)
				if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), "what a rule of Policy denies them") {
					t.Errorf("%s, with escalate: got %v, want %q", what, err, want)
				}
			}
			policy, rbac := grant, grant
			policy.Policy = []policyv1alpha1.PolicyRule{{Verbs: []string{"delete"}, ResourceKinds: []string{"secrets"}}}
			rbac.RBAC = []rbacv1.PolicyRule{{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
			check("Policy", test.want, policy)
			if test.rbac == "" {
				test.rbac = test.want
			}
			check("RBAC", test.rbac, rbac)
			// What is not denied can be granted anyhow.
			policy.Policy = []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}
			check("another verb", "", policy)
		})
	}
}

// PO-12: a role that is bound to somebody who has not logged in is written for them, too.
func TestRolesOfStrangers(t *testing.T) {
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"ban": {{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}},
		map[string][]policyv1alpha1.PolicyRule{"admin": {{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}, "public": {}})
	binding := func(role, user string, groups ...string) policyv1alpha1.PolicyRoleBinding {
		return policyv1alpha1.PolicyRoleBinding{RoleName: role, UserNames: []string{user}, GroupNames: groups}
	}
	w.PolicyBindings = []*policyv1alpha1.PolicyBinding{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"ban": binding("ban", "x", "system:authenticated")}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"admin": binding("admin", "hubert"), "public": binding("public", "system:anonymous")}},
	}
	ix := ruleset.Build(inputOf(w))
	for role, fine := range map[string]bool{"public": false, "private": true} {
		err := Covers(ix, Grant{User: &user.DefaultInfo{Name: "hubert", Groups: []string{"system:authenticated"}}, Namespace: "hammer",
			Role: ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: "hammer", Name: role}, Policy: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}})
		if (err == nil) != fine {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// PO-12: what RBAC cannot say is not held for it, and tiers that are not in the chain hold nothing.
func TestHeldForRBAC(t *testing.T) {
	w := refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{"hubert": {{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}, {Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, When: "object.x == 1"}}})
	w.Roles = append(w.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	w.RoleBindings = append(w.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "hubert"}}})
	ix := ruleset.Build(inputOf(w))
	for _, test := range []struct {
		verb  string
		tiers []ruleset.Tier
		want  string
	}{
		{verb: "get"}, {verb: "list"}, {verb: "create", want: "RBAC has no conditions"}, {verb: "delete", want: "no rule allows it"},
		{verb: "get", tiers: []ruleset.Tier{ruleset.TierRBAC}, want: "no rule allows it"}, {verb: "list", tiers: []ruleset.Tier{ruleset.TierRBAC}},
		{verb: "get", tiers: []ruleset.Tier{ruleset.TierMaster, ruleset.TierNamespace}}, {verb: "list", tiers: []ruleset.Tier{ruleset.TierMaster, ruleset.TierNamespace}, want: "no rule allows it"},
	} {
		err := Covers(ix, Grant{User: &user.DefaultInfo{Name: "hubert"}, Namespace: "hammer", Tiers: test.tiers,
			RBAC: []rbacv1.PolicyRule{{Verbs: []string{test.verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s with %v: got %v, want %q", test.verb, test.tiers, err, test.want)
		}
	}
}
