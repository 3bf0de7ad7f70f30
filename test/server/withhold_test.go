package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestRefusedChangesDoNotTellWhatIsStored: validation comes before the enforcer and quotes the stored object. Whoever
// may change it only under a condition, and may not get it, does not learn from an invalid change what is in it (CA-6);
// with the right to get it, he sees what is wrong, as everybody does.
func TestRefusedChangesDoNotTellWhatIsStored(t *testing.T) {
	t.Parallel()
	s := peopled.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hidden-in-the-pod"}},
	}}}}
	s.await("the pod", func() (bool, error) {
		_, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	cond := kubernetes.NewForConfigOrDie(s.as("cond"))
	change := func(kind types.PatchType, patch string) error {
		_, err := cond.CoreV1().Pods("default").Patch(ctx, "p", kind, []byte(patch), metav1.PatchOptions{})
		return err
	}
	const immutable = `{"spec":{"hostname":"other"}}`

	err := change(types.MergePatchType, immutable)
	if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "hidden-in-the-pod") || !strings.Contains(err.Error(), "is not shown") {
		t.Errorf("an invalid change by who may not get the pod: %v", err)
	}
	wrong := change(types.JSONPatchType, `[{"op":"test","path":"/spec/containers/0/env/0/value","value":"wrong"}]`)
	if !apierrors.IsInvalid(wrong) || strings.Contains(wrong.Error(), "env") {
		t.Errorf("a test of what is stored: %v", wrong)
	}

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "cond"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the right to get it", func() (bool, error) {
		_, err := cond.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
		return err == nil, nil
	})
	if err := change(types.MergePatchType, immutable); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "pod updates may not change fields") {
		t.Errorf("an invalid change by who may get the pod: %v", err)
	}
}
