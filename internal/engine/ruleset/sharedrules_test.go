package ruleset

import (
	"fmt"
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/test/law"
)

// Roles that come together share the rules that are the same, and mean what they mean one by one. What they were made
// of is not changed.
func TestRolesShareRules(t *testing.T) {
	law.Rounds(t, 20, func(seed int64) int {
		pick := picker(seed)
		common := []rbacv1.PolicyRule{pick.RBACRule(), pick.RBACRule(), pick.RBACRule()}
		var in Input
		for i := range 2 * manyRoles {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("role-", i)}}
			for range pick(4) {
				role.Rules = append(role.Rules, *common[pick(len(common))].DeepCopy())
			}
			if pick(3) == 0 {
				role.Rules = append(role.Rules, pick.RBACRule())
			}
			in.ClusterRoles = append(in.ClusterRoles, role)
			in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
				RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: fmt.Sprint("user-", i%7)}}})
		}
		var written []*rbacv1.ClusterRole
		for _, r := range in.ClusterRoles {
			written = append(written, r.DeepCopy())
		}
		together := Build(in)
		apart := Build(Input{})
		for _, b := range in.ClusterRoleBindings {
			apart = apart.Apply(Put(b))
		}
		for _, r := range written {
			apart = apart.Apply(Put(r))
		}
		if !reflect.DeepEqual(in.ClusterRoles, written) {
			t.Fatal("a role was changed")
		}
		shared := map[any]bool{}
		total := 0
		for i, r := range written {
			ref := RoleRef{Kind: ClusterRole, Name: r.Name}
			got := together.Definition(ref)
			if len(got.RBAC)+len(r.Rules) > 0 && !reflect.DeepEqual(got.RBAC, r.Rules) || !reflect.DeepEqual(got.Rules, apart.Definition(ref).Rules) {
				t.Fatalf("role %d: %v, want %v", i, got.RBAC, r.Rules)
			}
			for _, ru := range got.Rules {
				shared[ru] = true
				total++
			}
		}
		if total > 0 && len(shared) >= total {
			t.Errorf("%d of %d rules are shared", total-len(shared), total)
		}
		for range 100 {
			r := pick.Request()
			if got, want := together.RBAC(r).Allow.Found(), apart.RBAC(r).Allow.Found(); got != want {
				t.Fatalf("%+v: %v together, %v apart", r, got, want)
			}
		}
		return total
	})
}
