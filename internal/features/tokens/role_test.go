package tokens

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TK-1: the role gets the rules that a newer release has, and keeps what an admin has added. An admin who says so has
// the last word, and a binding that was deleted stays so.
func TestRoleIsReconciled(t *testing.T) {
	rules := requesterRules()
	own := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	for name, c := range map[string]struct {
		annotation string
		has, want  []rbacv1.PolicyRule
	}{
		"none":                {has: nil, want: rules},
		"of an older release": {"true", rules[:1], rules},
		"without annotation":  {"", rules[:1], rules},
		"with another rule":   {"true", []rbacv1.PolicyRule{own, rules[1]}, []rbacv1.PolicyRule{own, rules[1], rules[0]}},
		"an admin's":          {"false", rules[:1], rules[:1]},
		"complete":            {"true", rules, rules},
	} {
		client := fake.NewClientset()
		if c.has != nil {
			if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: Requester, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: c.annotation}}, Rules: c.has}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := (role{everybody: true}).reconcile(t.Context(), client.RbacV1()); err != nil {
			t.Fatal(err)
		}
		got, err := client.RbacV1().ClusterRoles().Get(t.Context(), Requester, metav1.GetOptions{})
		if err != nil || !equality.Semantic.DeepEqual(got.Rules, c.want) {
			t.Errorf("%s: %v, %v", name, got.Rules, err)
		}
		bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
		if err != nil || (len(bindings.Items) == 1) != (c.has == nil) {
			t.Errorf("%s: %d bindings, %v", name, len(bindings.Items), err)
		}
	}
}
