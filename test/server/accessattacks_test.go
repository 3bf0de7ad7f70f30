package server

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// TM-11, TM-17: a grant allows what its role says now: nothing while the role is deleted. A namespace that is deleted
// and made again has no grants.
func TestRoleAndNamespaceOfAGrant(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, bare.get(t), "ac-h")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "ac-h-reads"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	if _, err := w.core.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.rule(t, "ac-h", func(s *access.AccessRuleSpec) { s.RoleRef.Name = role.Name })
	alice := w.oncall("ach-alice")
	made, err := w.ask(t, alice, "ac-h", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), w.lead("ach-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	reads := newReader(t, alice)
	const path = "/api/v1/namespaces/ac-h/configmaps/one"
	answers := func(what string, want int) {
		t.Helper()
		w.await(what, func() (bool, error) { return reads.get(path).code == want, nil })
	}
	answers("the grant", http.StatusOK)
	if err := w.core.RbacV1().ClusterRoles().Delete(t.Context(), role.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	answers("the end of the role", http.StatusForbidden)
	if _, err := w.core.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answers("the role again", http.StatusOK)

	if err := w.core.CoreV1().Namespaces().Delete(t.Context(), "ac-h", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the end of the namespace", func() (bool, error) {
		_, err := w.core.CoreV1().Namespaces().Get(t.Context(), "ac-h", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if _, err := w.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ac-h"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := w.requests(w.instance.admin).List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("requests that outlive their namespace: %v, %v", left, err)
	}
	if _, err := w.core.CoreV1().ConfigMaps("ac-h").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := reads.get(path).code; got != http.StatusForbidden {
		t.Errorf("a namespace that was made again: %d", got)
	}
}

// TM-10: a name that could come to mean another resource is refused, whether or not it is served; with its group it is
// not.
func TestRequestsNameTheirGroup(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, bare.get(t), "ac-k")
	w.rule(t, "ac-k", nil)
	for entry, ok := range map[string]bool{"pods": true, "Deployment": true, "deployments.apps": true, "*": true, "gizmos.example.com": true, "gizmos": false, "Gizmo": false} {
		made, err := w.ask(t, w.oncall("ack-alice"), "ac-k", func(s *access.AccessRequestSpec) { s.ResourceKinds = []string{"configmaps", entry} })
		switch {
		case ok && err != nil:
			t.Errorf("%s: %v", entry, err)
		case ok:
			if err := w.requests(w.instance.admin).Delete(t.Context(), made.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.resourceKinds[1]"):
			t.Errorf("%s: %v", entry, err)
		}
	}
}
