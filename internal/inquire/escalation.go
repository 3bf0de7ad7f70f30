package inquire

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/snapshot"
)

// Escalation refuses roles and bindings that give away more than their writer has (PO-12).
type Escalation struct {
	Store *snapshot.Store
	Chain authorizer.UnconditionalAuthorizer
	// MasterNamespace is where power is power everywhere.
	MasterNamespace string
}

var (
	roles    = authz.SchemeGroupVersion.WithResource("roles").GroupResource()
	bindings = authz.SchemeGroupVersion.WithResource("rolebindings").GroupResource()
)

// ConfirmRole: the rules are held, or the writer may escalate; deny rules, new ones and old ones, take the verb deny.
func (e *Escalation) ConfirmRole(ctx context.Context, role, old *authz.Role) error {
	w := write{resource: roles, name: role.Name, namespace: role.Namespace, role: role.Name, verb: "escalate", rules: role.Rules}
	w.denies = ruleset.NeedsDeny(role.Rules) || (old != nil && ruleset.NeedsDeny(old.Rules))
	return e.confirm(ctx, w)
}

// ConfirmRoleBinding: the role is held where it is bound, or the writer may bind it; a role with deny rules takes the verb
// deny.
func (e *Escalation) ConfirmRoleBinding(ctx context.Context, binding, _ *authz.RoleBinding, role policyv1alpha1.PolicyRole) error {
	return e.confirm(ctx, write{
		resource: bindings, name: binding.Name, namespace: binding.Namespace, role: binding.RoleRef.Name, verb: "bind",
		rules: role.Rules, denies: ruleset.NeedsDeny(role.Rules),
	})
}

// ConfirmUnbinding: to take away a binding of a role with deny rules gives power, and takes the verb deny, as binding it did.
func (e *Escalation) ConfirmUnbinding(ctx context.Context, binding *authz.RoleBinding, role policyv1alpha1.PolicyRole) error {
	w := write{resource: bindings, name: binding.Name, namespace: binding.Namespace, role: binding.RoleRef.Name}
	w.denies = ruleset.NeedsDeny(role.Rules)
	_, err := e.mayDeny(ctx, w)
	return err
}

// write is what somebody is about to write.
type write struct {
	resource  schema.GroupResource
	name      string
	namespace string
	role      string
	verb      string
	rules     []policyv1alpha1.PolicyRule
	denies    bool
}

func (e *Escalation) confirm(ctx context.Context, w write) error {
	caller, err := e.mayDeny(ctx, w)
	if err != nil {
		return err
	}
	if e.may(ctx, caller, w.verb, w) {
		return nil
	}
	index := authorize.SnapshotOf(ctx, e.Store).Rules
	if index == nil {
		return apierrors.NewServiceUnavailable("the server has not read its policy yet")
	}
	if err := index.Covers(ruleset.Grant{User: caller, Namespace: w.namespace, Policy: w.rules}); err != nil {
		return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("%w; or user %q needs the verb %s on roles.%s %q %s",
			err, caller.GetName(), w.verb, roles.Group, w.role, e.where(w)))
	}
	return nil
}

// mayDeny checks the verb deny, if deny rules are involved, and returns the caller.
func (e *Escalation) mayDeny(ctx context.Context, w write) (user.Info, error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewForbidden(w.resource, w.name, errors.New("the caller is not known"))
	}
	if w.denies && !e.may(ctx, caller, "deny", w) {
		return nil, apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("the role has deny rules: user %q needs the verb deny on roles.%s %q %s",
			caller.GetName(), roles.Group, w.role, e.where(w)))
	}
	return caller, nil
}

func (e *Escalation) may(ctx context.Context, caller user.Info, verb string, w write) bool {
	decision, _, _ := e.Chain.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: verb, Namespace: e.scope(w.namespace), APIGroup: roles.Group, APIVersion: authz.SchemeGroupVersion.Version,
		Resource: roles.Resource, Name: w.role, ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow
}

// scope: in the master namespace everything is asked cluster-wide (PO-6).
func (e *Escalation) scope(namespace string) string {
	if namespace == e.MasterNamespace {
		return ""
	}
	return namespace
}

func (e *Escalation) where(w write) string {
	if e.scope(w.namespace) == "" {
		return "cluster-wide, since the policy of the master namespace holds everywhere"
	}
	return "in namespace " + w.namespace
}
