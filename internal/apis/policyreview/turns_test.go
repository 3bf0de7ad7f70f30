package policyreview

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/turns"
)

// NI-6: writes of roles of Policy and of RBAC are checked one after the other for each user; a write whose turn does
// not come is told to try again, and is not let pass.
func TestGrantsAreCheckedInTurn(t *testing.T) {
	h := newHouse(t)
	held := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods."}}
	e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master, Turns: &turns.Queue{}}
	edgar := &user.DefaultInfo{Name: "edgar"}
	meta := metav1.ObjectMeta{Namespace: "hammer", Name: "dev"}
	for name, write := range map[string]func(context.Context) error{
		"Policy": func(ctx context.Context) error {
			return e.ConfirmRole(ctx, &authz.Role{ObjectMeta: meta, Rules: []policyv1alpha1.PolicyRule{held}}, nil)
		},
		"RBAC": func(ctx context.Context) error {
			rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
			return (&RBACWrites{Escalation: e}).Confirm(ctx, "hammer", &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, nil)
		},
	} {
		ctx, cancel := context.WithCancel(request.WithUser(h.in(hammer(held)), edgar))
		done, err := e.Turns.Take(ctx, edgar)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan error)
		go func() { answer <- write(ctx) }()
		cancel()
		if err := <-answer; !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: while another write is checked: %v", name, err)
		}
		done()
		if err := write(request.WithUser(h.in(hammer(held)), edgar)); err != nil {
			t.Errorf("%s: after it: %v", name, err)
		}
	}
}
