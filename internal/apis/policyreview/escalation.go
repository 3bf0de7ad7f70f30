package policyreview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/escalation"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Escalation refuses roles and bindings, of Policy and of RBAC, that give away more than their writer has (PO-12).
type Escalation struct {
	Store *snapshot.Store
	Chain *authorize.Chain
	// MasterNamespace is where power is power everywhere.
	MasterNamespace string
	// DeniesOnly leaves it to the API server to refuse rights that the writer of RBAC lacks: it checks that itself, and
	// knows authorizers that this host does not. Rights that a rule of Policy denies are refused here.
	DeniesOnly bool
	// Turns gives turns to those whose grants are compared, which takes long; nil in a command.
	Turns *turns.Queue
}

var (
	roles    = authz.SchemeGroupVersion.WithResource("roles").GroupResource()
	bindings = authz.SchemeGroupVersion.WithResource("rolebindings").GroupResource()
)

// ConfirmRole: the rules are held, or the writer may escalate; deny rules, new ones and old ones, take the verb deny.
func (e *Escalation) ConfirmRole(ctx context.Context, role, old *authz.Role) error {
	w := e.policyWrite(roles, role.Name, role.Namespace, role.Namespace, role.Name)
	w.verb, w.policy, w.denies = "escalate", role.Rules, escalation.NeedsDeny(role.Rules) || (old != nil && escalation.NeedsDeny(old.Rules))
	if err := e.confirmSight(ctx, w); err != nil {
		return err
	}
	return e.confirm(ctx, w)
}

// ConfirmRoleBinding: the role is held where it is bound, or the writer may bind it; a role with deny rules takes the
// verb deny.
func (e *Escalation) ConfirmRoleBinding(ctx context.Context, binding, _ *authz.RoleBinding, role policyv1alpha1.PolicyRole) error {
	w := e.policyWrite(bindings, binding.Name, binding.Namespace, binding.RoleRef.Namespace, binding.RoleRef.Name)
	w.verb, w.policy, w.denies = "bind", role.Rules, escalation.NeedsDeny(role.Rules)
	w.span = ruleset.SpanOf(binding.NotBefore, binding.NotAfter)
	if binding.RoleRef.ClusterRole() {
		w.bindsClusterRole(e, binding.RoleRef.Name)
	}
	for _, name := range binding.UserNames {
		w.grantees = append(w.grantees, ruleset.Subject{Name: name})
	}
	for _, name := range binding.GroupNames {
		w.grantees = append(w.grantees, ruleset.Subject{Group: true, Name: name})
	}
	return e.confirm(ctx, w)
}

// ConfirmUnbinding: to take away a binding of a role with deny rules gives power, and takes the verb deny, as binding
// it did.
func (e *Escalation) ConfirmUnbinding(ctx context.Context, binding *authz.RoleBinding, role policyv1alpha1.PolicyRole) error {
	w := e.policyWrite(bindings, binding.Name, binding.Namespace, binding.RoleRef.Namespace, binding.RoleRef.Name)
	w.denies = escalation.NeedsDeny(role.Rules)
	_, err := e.mayDeny(ctx, w)
	return err
}

// write is what the caller is about to write.
type write struct {
	resource schema.GroupResource
	name     string
	// namespace is where the rules will hold; empty is everywhere.
	namespace string
	// role is asked about with the verb that makes up for rights that are missing, escalate or bind, and with the verb
	// deny.
	role authorizer.AttributesRecord
	ref  ruleset.RoleRef
	verb string
	// policy or rbac are the rules, and grantees who gets them; a role has none.
	policy   []policyv1alpha1.PolicyRule
	rbac     []rbacv1.PolicyRule
	load     func(context.Context) ([]rbacv1.PolicyRule, error) // reads rbac, if that turns out to be needed
	grantees []ruleset.Subject
	denies   bool
	// span is when the grant counts.
	span ruleset.Span
}

// bindsClusterRole makes it a write of a binding to a role of RBAC.
func (w *write) bindsClusterRole(e *Escalation, name string) {
	w.ref = ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: name}
	w.role.APIGroup, w.role.APIVersion, w.role.Resource = rbacv1.GroupName, rbacv1.SchemeGroupVersion.Version, "clusterroles"
	w.load = func(ctx context.Context) ([]rbacv1.PolicyRule, error) {
		role := authorize.SnapshotOf(ctx, e.Store).Rules.Definition(w.ref)
		if role == nil {
			return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
		}
		return role.RBAC, nil
	}
}

// held is the span in which the writer has to hold what the write grants: from now on, or from the start of the grant.
// A time-limited right only suffices for a grant that ends with it (TM-8).
func (w write) held(now time.Time) ruleset.Span {
	span := w.span
	if span == (ruleset.Span{}) {
		span = ruleset.SpanOf(nil, nil)
	}
	if !now.IsZero() {
		span.From = max(span.From, now.Unix())
	}
	span.Until = max(span.Until, span.From+1)
	return span
}

// policyWrite is a write of a role of Policy or of a binding of one. In the master namespace everything is asked
// cluster-wide (PO-6).
func (e *Escalation) policyWrite(resource schema.GroupResource, name, namespace, roleNamespace, role string) write {
	if namespace == e.MasterNamespace {
		namespace = ""
	}
	return write{
		resource: resource, name: name, namespace: namespace, ref: ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: roleNamespace, Name: role},
		role: authorizer.AttributesRecord{Namespace: namespace, APIGroup: roles.Group, APIVersion: authz.SchemeGroupVersion.Version, Resource: roles.Resource, Name: role, ResourceRequest: true},
	}
}

// confirm lets a write pass if its rules are held. The verb makes up for missing rights, but not for what a rule of
// Policy denies, unless a rule names the verb: RBAC's * includes every verb, but was not meant to lift denies.
func (e *Escalation) confirm(ctx context.Context, w write) error {
	caller, err := e.mayDeny(ctx, w)
	if err != nil {
		return err
	}
	if err := e.confirmToken(ctx, caller, w); err != nil {
		return err
	}
	if slices.Contains(caller.GetGroups(), user.SystemPrivilegedGroup) {
		return nil // also before the policy is known: the server itself writes the default roles
	}
	index := authorize.SnapshotOf(ctx, e.Store).Rules
	if index == nil {
		return apierrors.NewServiceUnavailable("the server has not read its policy yet")
	}
	now := requestctx.InstantOf(ctx)
	if now.IsZero() {
		_, now = e.Store.Now()
	}
	asked, tiers := w.role, e.tiers()
	asked.User, asked.Verb = caller, w.verb
	lifted := e.may(ctx, asked)
	if lifted && index.Names(e.Chain.Scoped(asked), tiers...) {
		return nil
	}
	index = index.Throughout(w.held(now))
	if e.DeniesOnly && !escalation.Reaches(index, escalation.Grant{User: caller, Namespace: w.namespace, Tiers: tiers}) {
		return nil
	}
	if w.load != nil {
		if w.rbac, err = w.load(ctx); apierrors.IsNotFound(err) && lifted {
			return nil // there is nothing yet that could be denied, and who writes the role is asked then
		} else if err != nil {
			return err
		}
	}
	grant := escalation.Grant{User: caller, Namespace: w.namespace, Policy: w.policy, RBAC: w.rbac, Grantees: w.grantees, Tiers: tiers, Lifted: lifted || e.DeniesOnly}
	if len(w.grantees) == 0 {
		grant.Role = w.ref
	}
	done, err := e.Turns.Take(ctx, caller)
	if err != nil {
		return err
	}
	defer done() // also if it panics: a turn that never ends would stop all writes of policy
	if err := escalation.Covers(index, grant); err != nil {
		named := ""
		if grant.Lifted {
			named = ", by its name and not by *,"
		}
		return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("%w; or user %q needs the verb %s%s on %s", err, caller.GetName(), w.verb, named, e.target(w)))
	}
	return nil
}

// confirmToken refuses a grant with a narrowed token, unless every link names the verb: the token may not hold what its
// user holds (TK-3).
func (e *Escalation) confirmToken(ctx context.Context, caller user.Info, w write) error {
	if _, narrowed := caller.(requestctx.TokenUser); !narrowed && requestctx.TokenOf(ctx) == nil {
		return nil
	}
	asked := w.role
	asked.User, asked.Verb = caller, w.verb
	if w.verb == "" || e.may(ctx, asked) {
		return nil
	}
	return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("a narrowed token hands out rights only if every link of it names the verb %s on %s", w.verb, e.target(w)))
}

// mayDeny checks the verb deny, if deny rules are involved, and returns the caller.
func (e *Escalation) mayDeny(ctx context.Context, w write) (user.Info, error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewForbidden(w.resource, w.name, errors.New("the caller is not known"))
	}
	asked := w.role
	asked.User, asked.Verb = caller, "deny"
	if w.denies && !e.may(ctx, asked) {
		return nil, apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("the role has deny rules: user %q needs the verb deny on %s", caller.GetName(), e.target(w)))
	}
	return caller, nil
}

func (e *Escalation) may(ctx context.Context, attrs authorizer.AttributesRecord) bool {
	decision, _, _ := e.Chain.Authorize(ctx, attrs)
	return decision == authorizer.DecisionAllow
}

// tiers are those of the index that are in the chain, in its order.
func (e *Escalation) tiers() []ruleset.Tier {
	tiers := []ruleset.Tier{}
	for _, link := range e.Chain.Links() {
		if t, ok := link.Authorizer.(authorize.RuleTracer); ok && !slices.Contains(tiers, t.Tier()) {
			tiers = append(tiers, t.Tier())
		}
	}
	return tiers
}

// target is the role on which a verb is needed, and where.
func (e *Escalation) target(w write) string {
	role := fmt.Sprintf("%s.%s", w.role.Resource, w.role.APIGroup)
	if w.role.Name != "" {
		role += fmt.Sprintf(" %q", w.role.Name)
	}
	switch {
	case w.role.Namespace != "":
		return role + " in namespace " + w.role.Namespace
	case w.role.APIGroup == roles.Group:
		return role + " cluster-wide, since the policy of the master namespace holds everywhere"
	}
	return role + " cluster-wide"
}
