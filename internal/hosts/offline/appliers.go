package offline

import (
	"context"
	"errors"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Write is a change of one object of policy.
type Write struct {
	// Verb is create, update or delete, Resource the plural with its group.
	Verb, Resource, Namespace, Name string
	// Object is what is written; for delete, what is deleted.
	Object runtime.Object
}

// Appliers are those who may make a write by the current policy: the verb is theirs, and the write gives nothing away
// that they do not have (PO-12).
type Appliers struct {
	Subjects []ruleset.Subject
	// Escalates are those who have the verb, but give away more than they have, and Why is the reason of the first.
	Escalates []ruleset.Subject
	Why       string
}

// Appliers asks for a write. then is the policy after all writes, where a binding finds its role.
func (h *Host) Appliers(ctx context.Context, w Write, then *Host) (out Appliers, err error) {
	if b, ok := w.Object.(*authz.RoleBinding); ok { // as the server does before it looks at it
		b = b.DeepCopy()
		policycodec.SettleRoleRef(b, h.kernel.Master)
		w.Object = b
	}
	reader := &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	status, err := h.reviewer.WhoCan(request.WithUser(ctx, reader), w.Namespace, authz.ResourceAccessReviewSpec{Verb: w.Verb, ResourceKind: w.Resource, ResourceName: nameFor(w)})
	if err == nil {
		err = h.beyondProblems(status.EvaluationError)
	}
	if err != nil {
		return out, err
	}
	var candidates []ruleset.Subject
	for _, name := range status.UserNames {
		candidates = append(candidates, ruleset.Subject{Name: name})
	}
	for _, name := range status.GroupNames {
		candidates = append(candidates, ruleset.Subject{Group: true, Name: name})
	}
	for _, s := range candidates {
		who := &user.DefaultInfo{}
		for _, is := range whocan.Judged(s) {
			if is.Group {
				who.Groups = append(who.Groups, is.Name)
			} else {
				who.Name = is.Name
			}
		}
		switch refused := h.confirm(request.WithUser(ctx, who), w, then); {
		case refused == nil:
			out.Subjects = append(out.Subjects, s)
		case apierrors.IsForbidden(refused):
			if out.Escalates = append(out.Escalates, s); out.Why == "" {
				out.Why = refused.Error()
			}
		default:
			return out, refused
		}
	}
	return out, nil
}

// beyondProblems is what keeps an answer from being complete. Objects that grant nothing, such as a binding whose role
// is gone, do not: every cluster has some.
func (h *Host) beyondProblems(text string) error {
	for _, p := range h.Snapshot().Rules.Problems() {
		text = strings.ReplaceAll(text, p.Error(), "")
	}
	if text = strings.Trim(text, "[]();,. \n"); text == "" {
		return nil
	}
	return errors.New(text)
}

func nameFor(w Write) string {
	if w.Verb == "create" {
		return ""
	}
	return w.Name
}

// confirm is the check that the server makes.
func (h *Host) confirm(ctx context.Context, w Write, then *Host) error {
	e := &policyreview.Escalation{Store: h.kernel.Store, Chain: h.kernel.Gate.Chain, MasterNamespace: h.kernel.Master}
	if w.Verb == "delete" {
		if b, ok := w.Object.(*authz.RoleBinding); ok {
			return e.ConfirmUnbinding(ctx, b, h.policyRole(b.RoleRef.Namespace, b.RoleRef.Name))
		}
		return nil
	}
	switch o := w.Object.(type) {
	case *authz.Role:
		var old *authz.Role
		if had := h.policyRole(o.Namespace, o.Name); len(had.Rules) > 0 {
			old = &authz.Role{ObjectMeta: o.ObjectMeta, Rules: had.Rules}
		}
		return e.ConfirmRole(ctx, o, old)
	case *authz.RoleBinding:
		return e.ConfirmRoleBinding(ctx, o, nil, then.policyRole(o.RoleRef.Namespace, o.RoleRef.Name))
	case *rbacv1.Role:
		return e.ConfirmRBACRole(ctx, policyreview.RBACRole{Namespace: o.Namespace, Name: o.Name, Rules: o.Rules})
	case *rbacv1.ClusterRole:
		return e.ConfirmRBACRole(ctx, policyreview.RBACRole{Name: o.Name, Rules: o.Rules, Aggregates: o.AggregationRule != nil})
	case *rbacv1.RoleBinding:
		return e.ConfirmRBACBinding(ctx, policyreview.RBACBinding{Namespace: o.Namespace, Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects, Rules: then.rbacRules(o.Namespace, o.RoleRef)})
	case *rbacv1.ClusterRoleBinding:
		return e.ConfirmRBACBinding(ctx, policyreview.RBACBinding{Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects, Rules: then.rbacRules("", o.RoleRef)})
	}
	return nil
}

// policyRole is a role of Policy; empty if there is none.
func (h *Host) policyRole(namespace, name string) policyv1alpha1.PolicyRole {
	objects, err := h.files.Objects(snapshot.Policies)
	if err != nil {
		return policyv1alpha1.PolicyRole{}
	}
	for _, p := range snapshot.Of[*policyv1alpha1.Policy](objects) {
		if p.Namespace == namespace {
			return p.Roles[name]
		}
	}
	return policyv1alpha1.PolicyRole{}
}

// rbacRules reads the rules of a role of RBAC.
func (h *Host) rbacRules(namespace string, ref rbacv1.RoleRef) func(context.Context) ([]rbacv1.PolicyRule, error) {
	return func(context.Context) ([]rbacv1.PolicyRule, error) {
		if ref.Kind == "Role" {
			objects, err := h.files.Objects(snapshot.Roles)
			if err != nil {
				return nil, err
			}
			all := snapshot.Of[*rbacv1.Role](objects)
			if i := slices.IndexFunc(all, func(r *rbacv1.Role) bool { return r.Namespace == namespace && r.Name == ref.Name }); i >= 0 {
				return all[i].Rules, nil
			}
		} else {
			objects, err := h.files.Objects(snapshot.ClusterRoles)
			if err != nil {
				return nil, err
			}
			all := snapshot.Of[*rbacv1.ClusterRole](objects)
			if i := slices.IndexFunc(all, func(r *rbacv1.ClusterRole) bool { return r.Name == ref.Name }); i >= 0 {
				return all[i].Rules, nil
			}
		}
		return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), ref.Name)
	}
}
