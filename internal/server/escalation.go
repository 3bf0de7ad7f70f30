package server

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/authorize"
)

// escalation refuses roles and bindings that give away more than the caller has (PO-12).
type escalation struct {
	chain  *authorize.Chain
	master string
}

// ConfirmRole: new rules need escalate, and deny rules need deny.
func (e escalation) ConfirmRole(ctx context.Context, role, old *authz.Role) error {
	if err := e.require(ctx, "escalate", role.Namespace, "roles", role.Name); err != nil {
		return err
	}
	if hasDeny(role.Rules) {
		return e.require(ctx, "deny", role.Namespace, "roles", role.Name)
	}
	return nil
}

// ConfirmRoleBinding: binding needs bind, and binding deny rules needs deny.
func (e escalation) ConfirmRoleBinding(ctx context.Context, binding, _ *authz.RoleBinding, role policyv1alpha1.PolicyRole) error {
	namespace := binding.Namespace
	if err := e.require(ctx, "bind", namespace, "roles", binding.RoleRef.Name); err != nil {
		return err
	}
	if hasDeny(role.Rules) {
		return e.require(ctx, "deny", namespace, "roles", binding.RoleRef.Name)
	}
	return nil
}

func hasDeny(rules []policyv1alpha1.PolicyRule) bool {
	for i := range rules {
		if rules[i].Deny {
			return true
		}
	}
	return false
}

// require asks for a verb on a role. Power in the master namespace is power everywhere: there it is asked cluster-wide.
func (e escalation) require(ctx context.Context, verb, namespace, resource, name string) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(authz.SchemeGroupVersion.WithResource(resource).GroupResource(), name, fmt.Errorf("the caller is not known"))
	}
	scope := namespace
	if scope == e.master {
		scope = ""
	}
	attrs := authorizer.AttributesRecord{
		User: caller, Verb: verb, Namespace: scope, APIGroup: authz.SchemeGroupVersion.Group, APIVersion: authz.SchemeGroupVersion.Version,
		Resource: resource, Name: name, ResourceRequest: true,
	}
	decision, _, err := e.chain.Authorize(ctx, attrs)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	where := "in namespace " + namespace
	if scope == "" {
		where = "cluster-wide, since the master namespace's policy holds everywhere"
	}
	why := fmt.Errorf("user %q needs the verb %s on %s.%s %q %s", userName(caller), verb, resource, attrs.APIGroup, name, where)
	if err != nil {
		why = fmt.Errorf("%w (%w)", why, err)
	}
	return apierrors.NewForbidden(authz.SchemeGroupVersion.WithResource(resource).GroupResource(), name, why)
}

func userName(u user.Info) string { return u.GetName() }
