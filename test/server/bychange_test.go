package server

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// NI-4: a deny to delete a token secret holds for what the token controller deletes, and a deny to change a cluster
// role for what the aggregation controller changes.
func TestDenyHoldsByChange(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bychange", Annotations: map[string]string{"kubernetes.io/service-account.name": "bychange"}}, Type: corev1.SecretTypeServiceAccountToken}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bychange"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gathering := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bychange-all"}, AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"bychange": "yes"}}}}}
	part := func(name, label string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bychange": label}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	}
	// Of three: the first gathers the second, which gathers all with the label.
	first := gathering.DeepCopy()
	first.Name, first.AggregationRule.ClusterRoleSelectors[0].MatchLabels = "bychange-first", map[string]string{"bychange": "second"}
	second := gathering.DeepCopy()
	second.Name, second.Labels, second.AggregationRule.ClusterRoleSelectors[0].MatchLabels = "bychange-second", map[string]string{"bychange": "second"}, map[string]string{"bychange": "third"}
	for _, role := range []*rbacv1.ClusterRole{gathering, first, second, part("bychange-part", "yes"), part("bychange-other", "no")} {
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}}
	policies := dynamic.NewForConfigOrDie(s.admin)
	grantReads(t, policies, "bychange", "bychange-carl", all,
		map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"secrets"}, "resourceNames": []any{"bychange"}, "deny": true},
		map[string]any{"verbs": []any{"update"}, "resourceKinds": []any{"clusterroles.rbac.authorization.k8s.io"}, "resourceNames": []any{"bychange-all"}, "deny": true},
		map[string]any{"verbs": []any{"patch"}, "resourceKinds": []any{"clusterroles.rbac.authorization.k8s.io"}, "resourceNames": []any{"bychange-first"}, "deny": true})
	grantReads(t, policies, "bychange-free", "bychange-dave", all)
	dry := []string{"All"}
	annotate := func(ctx context.Context, who kubernetes.Interface, body string) error {
		_, err := who.CoreV1().Secrets("default").Patch(ctx, "bychange", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
		return err
	}
	carl, dave := kubernetes.NewForConfigOrDie(s.as("bychange-carl")), kubernetes.NewForConfigOrDie(s.as("bychange-dave"))
	s.await("the rules", func() (bool, error) {
		return annotate(ctx, carl, `{"metadata":{"annotations":{"a":"b"}}}`) == nil && annotate(ctx, dave, `{"metadata":{"annotations":{"a":"b"}}}`) == nil, nil
	})
	for _, who := range []struct {
		client kubernetes.Interface
		denied bool
	}{{carl, true}, {dave, false}} {
		create := func(name, label string) error {
			_, err := who.client.RbacV1().ClusterRoles().Create(ctx, part(name, label), metav1.CreateOptions{DryRun: dry})
			return err
		}
		relabel := func(name, label string) error {
			_, err := who.client.RbacV1().ClusterRoles().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"bychange":"`+label+`"}}}`), metav1.PatchOptions{DryRun: dry})
			return err
		}
		for name, tc := range map[string]struct {
			err   error
			stays bool
		}{
			"another account":            {annotate(ctx, who.client, `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"nobody"}}}`), false},
			"another uid":                {annotate(ctx, who.client, `{"metadata":{"annotations":{"kubernetes.io/service-account.uid":"x"}}}`), false},
			"another annotation":         {annotate(ctx, who.client, `{"metadata":{"annotations":{"other":"x"}}}`), true},
			"a new part":                 {create("bychange-new", "yes"), false},
			"a new part of a part":       {create("bychange-new", "third"), false},
			"a new role":                 {create("bychange-new", "no"), true},
			"a role becomes a part":      {relabel("bychange-other", "yes"), false},
			"a part is none any more":    {relabel("bychange-part", "no"), false},
			"another label of no part":   {relabel("bychange-other", "never"), true},
			"a part is deleted":          {who.client.RbacV1().ClusterRoles().Delete(ctx, "bychange-part", metav1.DeleteOptions{DryRun: dry}), false},
			"a role that is no part too": {who.client.RbacV1().ClusterRoles().Delete(ctx, "bychange-other", metav1.DeleteOptions{DryRun: dry}), true},
		} {
			switch refused := apierrors.IsForbidden(tc.err); {
			case who.denied && !tc.stays && (!refused || !strings.Contains(tc.err.Error(), "denies you")):
				t.Errorf("%s: %v", name, tc.err)
			case (!who.denied || tc.stays) && tc.err != nil:
				t.Errorf("%s, denied %v: %v", name, who.denied, tc.err)
			}
		}
	}
}
