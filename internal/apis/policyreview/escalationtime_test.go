package policyreview

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/requestctx"
)

// TM-8: an hour stays an hour. A right that ends is held for a binding whose interval it contains, and for nothing that
// has no end. The verb bind passes as always.
func TestAnHourStaysAnHour(t *testing.T) {
	const hour = time.Hour
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	get := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}
	bind := policyv1alpha1.PolicyRule{Verbs: []string{"bind"}, ResourceKinds: []string{"roles.authorization.proviso.dev"}}
	h := newHouse(t)
	e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}
	// within is what edgar can do who has the rules from an hour ago until in an hour.
	within := func(rules ...policyv1alpha1.PolicyRule) context.Context {
		w := hammer(rules...)
		b := w.PolicyBindings[0].RoleBindings["devs"]
		b.NotBefore, b.NotAfter = at(-hour), at(hour)
		w.PolicyBindings[0].RoleBindings["devs"] = b
		ctx := h.in(w)
		return request.WithUser(requestctx.At(ctx, requestctx.From(ctx).Snapshot, now), &user.DefaultInfo{Name: "edgar"})
	}
	binding := func(notBefore, notAfter *metav1.Time) *authz.RoleBinding {
		return &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "b"}, RoleRef: authz.RoleRef{Namespace: "hammer", Name: "dev"},
			UserNames: []string{"alice"}, NotBefore: notBefore, NotAfter: notAfter}
	}
	role := policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{get}}
	for name, tc := range map[string]struct {
		ctx     context.Context
		binding *authz.RoleBinding
		refused bool
	}{
		"within it":                        {within(get), binding(nil, at(hour/2)), false},
		"as long as it":                    {within(get), binding(at(hour/2), at(hour)), false},
		"in the past":                      {within(get), binding(at(-2*hour), at(-hour/2)), false},
		"a second longer":                  {within(get), binding(nil, at(hour+time.Second)), true},
		"without an end":                   {within(get), binding(nil, nil), true},
		"after it":                         {within(get), binding(at(2*hour), at(3*hour)), true},
		"without an end, with bind":        {within(bind), binding(nil, nil), false},
		"without an end, held without one": {request.WithUser(h.in(hammer(get)), &user.DefaultInfo{Name: "edgar"}), binding(nil, nil), false},
	} {
		if err := e.ConfirmRoleBinding(tc.ctx, tc.binding, nil, role); (err != nil) != tc.refused || tc.refused && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.ConfirmRole(within(get), &authz.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "x"}, Rules: role.Rules}, nil); !apierrors.IsForbidden(err) {
		t.Errorf("a role has no end: %v", err)
	}
	if err := e.ConfirmRBACRole(within(get), RBACRole{Namespace: "hammer", Name: "x", Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}); !apierrors.IsForbidden(err) {
		t.Errorf("a role of RBAC has no end: %v", err)
	}
}

// TM-1, PO-12: a binding of Policy to a ClusterRole takes what binding the ClusterRole takes: its rules, or bind on it.
func TestBindingAClusterRoleTakesWhatItGives(t *testing.T) {
	h := newHouse(t)
	e := &Escalation{Store: h.Store, Chain: h.Gate.Chain, MasterNamespace: master}
	get := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}
	bind := policyv1alpha1.PolicyRule{Verbs: []string{"bind"}, ResourceKinds: []string{"clusterroles.rbac.authorization.k8s.io"}, ResourceNames: []string{"view"}}
	other := bind
	other.ResourceNames = []string{"edit"}
	for name, tc := range map[string]struct {
		holds policyv1alpha1.PolicyRule
		role  string
		want  string
		bound bool
	}{
		"held":                   {get, "view", "", false},
		"bind":                   {bind, "view", "", false},
		"bind of another":        {other, "view", "needs the verb bind", false},
		"no such role":           {get, "gone", "not found", false},
		"one that is more":       {get, "edit", "needs the verb bind", false},
		"held by such a binding": {get, "edit", "", true},
	} {
		w := hammer(tc.holds)
		for role, verb := range map[string]string{"view": "get", "edit": "delete"} {
			w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
		}
		b := &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "b"}, UserNames: []string{"alice"},
			RoleRef: authz.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tc.role}}
		if tc.bound { // the writer has the role by a binding of Policy, too
			w.PolicyBindings = append(w.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: master}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
				"w": {RoleName: tc.role, UserNames: []string{"edgar"}, RoleRef: &policyv1alpha1.PolicyRoleReference{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tc.role}}}})
		}
		err := e.ConfirmRoleBinding(request.WithUser(h.in(w), &user.DefaultInfo{Name: "edgar"}), b, nil, policyv1alpha1.PolicyRole{})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
