package policyreview

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/authorize"
)

// PO-12: what somebody may write depends on what they hold where it will hold, and on the verbs escalate, bind and deny
// on the role; each refusal names the verb that would help, and each has a twin that differs in one right.
func TestEscalation(t *testing.T) {
	allow := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}
	verb := func(v string, names ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{v}, ResourceKinds: []string{"roles.authorization.proviso.dev"}, ResourceNames: names}
	}
	type rules = []policyv1alpha1.PolicyRule
	for _, tc := range []struct {
		name string
		// what is written: role, binding or unbinding, of a role with rules; old are the rules that a role had before.
		what       string
		rules, old rules
		// holds and lacks are two sets of rights of the writer: with the first it is written, with the second refused
		// with want.
		holds, lacks rules
		want         string
	}{
		{name: "a role that is held", what: "role", rules: rules{allow}, holds: rules{allow}, lacks: nil, want: "needs the verb escalate"},
		{name: "a role that is not held, with escalate", what: "role", rules: rules{allow}, holds: rules{verb("escalate", "dev")}, lacks: rules{verb("escalate", "other")}, want: "needs the verb escalate"},
		{name: "a role that denies", what: "role", rules: rules{deny}, holds: rules{verb("deny", "dev")}, lacks: rules{verb("escalate"), verb("bind")}, want: "needs the verb deny"},
		{name: "a role that denied before", what: "role", old: rules{deny}, rules: rules{allow}, holds: rules{allow, verb("deny")}, lacks: rules{allow}, want: "needs the verb deny"},
		{name: "a binding of what is held", what: "binding", rules: rules{allow}, holds: rules{allow}, lacks: rules{verb("escalate")}, want: "needs the verb bind"},
		{name: "a binding of what is not held, with bind", what: "binding", rules: rules{allow}, holds: rules{verb("bind", "dev")}, lacks: rules{verb("bind", "other")}, want: "needs the verb bind"},
		{name: "a binding of a role that denies", what: "binding", rules: rules{allow, deny}, holds: rules{allow, verb("deny", "dev")}, lacks: rules{allow, verb("bind")}, want: "needs the verb deny"},
		{name: "the end of a binding of a role that denies", what: "unbinding", rules: rules{deny}, holds: rules{verb("deny", "dev")}, lacks: rules{verb("bind"), verb("escalate"), verb("deny", "other")}, want: "needs the verb deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t)
			write := func(writer rules) error {
				w := hammer(writer...)
				e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}
				ctx := request.WithUser(h.in(w), &user.DefaultInfo{Name: "edgar"})
				meta := metav1.ObjectMeta{Namespace: "hammer", Name: "dev"}
				binding := &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "b"}, RoleRef: authz.RoleRef{Namespace: "hammer", Name: "dev"}}
				switch tc.what {
				case "role":
					var old *authz.Role
					if tc.old != nil {
						old = &authz.Role{ObjectMeta: meta, Rules: tc.old}
					}
					return e.ConfirmRole(ctx, &authz.Role{ObjectMeta: meta, Rules: tc.rules}, old)
				case "binding":
					return e.ConfirmRoleBinding(ctx, binding, nil, policyv1alpha1.PolicyRole{Rules: tc.rules})
				}
				return e.ConfirmUnbinding(ctx, binding, policyv1alpha1.PolicyRole{Rules: tc.rules})
			}
			if err := write(tc.holds); err != nil {
				t.Errorf("with the right: %v", err)
			}
			if err := write(tc.lacks); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `"dev" in namespace hammer`) {
				t.Errorf("without the right: %v", err)
			}
		})
	}
}

// PO-12: the end of a binding that denies nothing takes nothing but the right to delete it; and who is not known may
// nothing.
func TestUnbindingWhatDeniesNothing(t *testing.T) {
	h := newHouse(t)
	e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}
	binding := &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "b"}, RoleRef: authz.RoleRef{Namespace: "hammer", Name: "dev"}}
	role := policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}}
	ctx := request.WithUser(h.in(hammer()), &user.DefaultInfo{Name: "edgar"})
	if err := e.ConfirmUnbinding(ctx, binding, role); err != nil {
		t.Error(err)
	}
	if err := e.ConfirmUnbinding(context.Background(), binding, role); !apierrors.IsForbidden(err) {
		t.Errorf("nobody: %v", err)
	}
}

// PO-6: in the master namespace the verbs must be held cluster-wide; a role of the master namespace's own binding is.
func TestEscalationInTheMasterNamespace(t *testing.T) {
	h := newHouse(t)
	e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}
	deny := policyv1alpha1.PolicyRule{Verbs: []string{"deny"}, ResourceKinds: []string{"roles.authorization.proviso.dev"}}
	write := func(where string) error {
		w := hammer(deny)
		w.Policies[0].Namespace, w.PolicyBindings[0].Namespace, w.PolicyBindings[0].Name = where, where, where
		return e.ConfirmRole(request.WithUser(h.in(w), &user.DefaultInfo{Name: "edgar"}), &authz.Role{ObjectMeta: metav1.ObjectMeta{Namespace: master, Name: "dev"},
			Rules: []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}}, nil)
	}
	if err := write("hammer"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cluster-wide") {
		t.Errorf("with the right in another namespace: %v", err)
	}
	if err := write(master); err != nil {
		t.Errorf("with the right everywhere: %v", err)
	}
}

// PO-12: rights of an authorizer that is not in the chain are not held.
func TestEscalationCountsWhatIsInTheChain(t *testing.T) {
	h := newHouse(t)
	pods := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods."}}
	w := hammer()
	w.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
	w.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "edgar"}}}}
	ctx := request.WithUser(h.in(w), &user.DefaultInfo{Name: "edgar"})
	role := &authz.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "dev"}, Rules: []policyv1alpha1.PolicyRule{pods}}
	if err := (&Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}).ConfirmRole(ctx, role, nil); err != nil {
		t.Errorf("with RBAC in the chain: %v", err)
	}
	var links []authorize.Link
	for _, l := range h.Gate.Chain.Links() {
		if l.Name != "rbac" {
			links = append(links, l)
		}
	}
	chain, err := authorize.NewChain(links...)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Escalation{Store: h.Store, Chain: chain, MasterNamespace: master}).ConfirmRole(ctx, role, nil); !apierrors.IsForbidden(err) {
		t.Errorf("without: %v", err)
	}
}
