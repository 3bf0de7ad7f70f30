package server

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// SV-5: policy of RBAC is read within the process: a binding that is made, changed and deleted counts, and counts no
// more. What is shared with the watch cache stays as it was stored.
func TestRBACIsReadWithin(t *testing.T) {
	s := plain.get(t)
	ctx := context.Background()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	may := func(user string) func() (bool, error) {
		client := kubernetes.NewForConfigOrDie(s.as(user))
		return func() (bool, error) {
			_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}
	}
	roles, bindings := admin.RbacV1().ClusterRoles(), admin.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "within", Annotations: map[string]string{"why": "test"}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}}
	if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "within"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "within"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "within-a"}}}
	made, err := bindings.Create(ctx, bind, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.await("the binding", may("within-a"))
	made.Subjects[0].Name = "within-b"
	if _, err := bindings.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the changed binding", may("within-b"))
	if allowed, _ := may("within-a")(); allowed {
		t.Error("a user who was taken out of a binding still has its rights")
	}
	cached, err := bindings.Get(ctx, "within", metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || cached.Kind != "" || len(cached.Subjects) != 1 || cached.Subjects[0].Name != "within-b" || len(cached.ManagedFields) == 0 {
		t.Errorf("the watch cache has %+v, %v", cached, err)
	}
	if err := bindings.Delete(ctx, "within", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the deletion", func() (bool, error) {
		allowed, err := may("within-b")()
		return !allowed, err
	})
	if got, err := roles.Get(ctx, "within", metav1.GetOptions{ResourceVersion: "0"}); err != nil || got.Annotations["why"] != "test" || len(got.Rules) != 1 {
		t.Errorf("the watch cache has %+v, %v", got, err)
	}
}
