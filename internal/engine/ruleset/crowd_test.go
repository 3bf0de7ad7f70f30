package ruleset

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// crowd is a world in which alice has n roles in every scope, most of which are about something else, so that the index
// asks its inverse lists instead of walking.
func crowd(pick refmodel.Pick, n int) *refmodel.World {
	w := &refmodel.World{Master: "master"}
	boring := func(i int) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{fmt.Sprint("thing-", i)}}
	}
	for _, ns := range []string{"master", "hammer"} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range n {
			r := boring(i)
			if pick(10) == 0 {
				r = pick.PolicyRule()
			}
			p.Roles[fmt.Sprint("r", i)] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{r}}
			b.RoleBindings[fmt.Sprint("b", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: fmt.Sprint("r", i), UserNames: []string{"alice"}}
		}
		w.Policies, w.PolicyBindings = append(w.Policies, p), append(w.PolicyBindings, b)
	}
	w.PolicyBindings = append(w.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "master"},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"m": {RoleName: "r1", GroupNames: []string{"team-a"}}}})
	for i := range n {
		r := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("thing-", i)}}
		if pick(15) == 0 {
			r = pick.RBACRule()
		}
		name := metav1.ObjectMeta{Name: fmt.Sprint("r", i)}
		w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{r}})
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}}})
	}
	return w
}

// PO-17: somebody with many roles gets the same decisions by way of the inverse index.
func TestManyRolesEqualModel(t *testing.T) {
	certainties := map[Certainty]int{}
	law.Rounds(t, 30, func(seed int64) int {
		pick := picker(seed)
		w := crowd(pick, 3*walkMax)
		ix := Build(inputOf(w))
		for range 100 {
			r := pick.Request()
			r.User = &user.DefaultInfo{Name: "alice", Groups: []string{"team-a"}}
			requireSame(t, ix, w, r, fmt.Sprint("seed ", seed))
			certainties[ix.Decide(r).Certainty]++
		}
		return 100
	})
	for _, o := range []Certainty{Never, Sometimes, Always} {
		if certainties[o] < 50 {
			law.TooFew(t, "certainties %v: too few to prove anything", certainties)
		}
	}
}

// Somebody in more groups than a query keeps gets the same decisions, also through the last of them.
func TestManyGroups(t *testing.T) {
	in := Input{ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "none"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}}
	var groups []string
	for i := range 3 * inlineSubjects {
		groups = append(groups, fmt.Sprint("group-", i))
		role := "none"
		if i == 3*inlineSubjects-1 {
			role = "view"
		}
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: groups[i]},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: groups[i]}}})
	}
	ix := Build(in)
	for _, last := range []bool{true, false} {
		r := ask("alice", "get", "pods")
		member := groups
		if !last {
			member = groups[:len(groups)-1]
		}
		r.User = &user.DefaultInfo{Name: "alice", Groups: member}
		if got := ix.RBAC(r).Allow.Found(); got != last {
			t.Errorf("in the last group %v: allowed %v", last, got)
		}
	}
}
