package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/policycodec"
)

func roleKind(cfg Config, guards *protections) *kind[*authz.Role] {
	return &kind[*authz.Role]{
		version: authz.SchemeGroupVersion, plural: "roles", singular: "role", shortNames: []string{"prole"}, namespaced: true,
		newObject: func() *authz.Role { return &authz.Role{} },
		newList:   func() runtime.Object { return &authz.RoleList{} },
		columns: []column[*authz.Role]{
			{name: "Rules", kind: "integer", description: "The number of rules.", cell: func(r *authz.Role) any { return int64(len(r.Rules)) }},
			{name: "Denies", kind: "integer", description: "The number of rules that deny.", cell: func(r *authz.Role) any {
				return count(r.Rules, func(rule policy.PolicyRule) bool { return rule.Deny })
			}},
			{name: "Conditional", kind: "integer", description: "The number of rules that have a condition.", cell: func(r *authz.Role) any {
				return count(r.Rules, func(rule policy.PolicyRule) bool {
					return rule.Where != "" || rule.When != "" || rule.AttributeRestrictions != nil
				})
			}},
			{name: "Unresolved", kind: "integer", description: "The number of kinds that a rule names and that nothing serves.", cell: func(r *authz.Role) any {
				n := 0
				for _, c := range r.Status.Rules {
					n += len(c.UnresolvedKinds)
				}
				return int64(n)
			}},
		},
		prepare:  func(_, _ *authz.Role) {},
		turn:     func(ctx context.Context, r, old *authz.Role) (func(), error) { return conditionsTurn(ctx, cfg, r, old) },
		validate: func(ctx context.Context, r, old *authz.Role) field.ErrorList { return validateRole(ctx, cfg, r, old) },
		warn: func(ctx context.Context, r, old *authz.Role) []string {
			var warnings []string
			if old == nil || !equality.Semantic.DeepEqual(r.Rules, old.Rules) {
				warnings = append(warnings, validate.Warnings(r.Rules, cfg.Rules.Unserved, cfg.Reads)...)
				warnings = append(warnings, foldedImpersonation(r.Rules)...)
				warnings = append(warnings, cfg.Rules.Evadable(EvadableRole{
					Role: authz.RoleRef{Namespace: r.Namespace, Name: r.Name}, Rules: r.Rules, Caller: guards.caller(ctx)})...)
			}
			return warnings
		},
		sameContent: func(a, b *authz.Role) bool { return equality.Semantic.DeepEqual(a.Rules, b.Rules) },
		copyStatus:  func(to, from *authz.Role) { to.Status = from.Status },
	}
}

// foldedImpersonation warns of conditions on impersonate:<mode>. The server remembers for some seconds who passed that
// check, whatever the request was, so that a condition cannot be part of it (CA-19).
func foldedImpersonation(rules []policy.PolicyRule) (warnings []string) {
	for i, rule := range rules {
		conditional := rule.Where != "" || rule.When != "" || rule.AttributeRestrictions != nil
		at := slices.IndexFunc(rule.Verbs, func(verb string) bool { return strings.HasPrefix(verb, "impersonate:") })
		if !conditional || at < 0 {
			continue
		}
		effect := "never allows it"
		if rule.Deny {
			effect = "always denies it"
		}
		warnings = append(warnings, fmt.Sprintf("rules[%d]: a condition cannot be part of %s: the rule %s; put the condition on impersonate-on:%s:<verb>",
			i, rule.Verbs[at], effect, strings.TrimPrefix(rule.Verbs[at], "impersonate:")))
	}
	return warnings
}

// checkTimeout bounds what checking the conditions of one role takes, which is the writer's time alone: what is stored
// is bounded by counting (PO-21).
const checkTimeout = 10 * time.Second

// conditionsTurn waits for the caller's turn, if there are conditions to compile.
func conditionsTurn(ctx context.Context, cfg Config, r, old *authz.Role) (done func(), err error) {
	conditional := func(rule policy.PolicyRule) bool { return ruleset.HasCondition(&rule) }
	if !slices.ContainsFunc(r.Rules, conditional) || old != nil && equality.Semantic.DeepEqual(r.Rules, old.Rules) {
		return func() {}, nil
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		caller = &user.DefaultInfo{} // all who are not known are one
	}
	return cfg.Turns.Take(ctx, caller)
}

// validateRole checks a role. Rules that it had before are not compiled again.
func validateRole(ctx context.Context, cfg Config, r, old *authz.Role) field.ErrorList {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var had []policy.PolicyRule
	if old != nil {
		had = old.Rules
	}
	return validate.Role(r, had, cfg.MasterNamespace, func(rule policy.PolicyRule, path *field.Path) field.ErrorList {
		if ctx.Err() != nil {
			return field.ErrorList{field.Invalid(path, field.OmitValueType{},
				fmt.Sprintf("checking the conditions of the role takes longer than %s: simplify them, or split it into several roles", checkTimeout))}
		}
		return cfg.Rules.CheckRule(rule, path)
	})
}

func count[T any](list []T, is func(T) bool) int64 {
	var n int64
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

// roleLayout says where roles are in a Policy. The status that the Policy keeps for them is shown with them.
func roleLayout(master string) layout[*policy.Policy, *authz.Role] {
	return layout[*policy.Policy, *authz.Role]{
		check: func(p *policy.Policy) error {
			err := ruleset.DefaultLimits().Policy(p, master)
			if err == nil {
				return nil
			}
			return apierrors.NewInvalid(policy.Kind("Policy"), p.Name, field.ErrorList{field.Invalid(field.NewPath("roles"), field.OmitValueType{}, err.Error())})
		},
		names: func(p *policy.Policy) []string { return slices.Sorted(maps.Keys(p.Roles)) },
		get: func(p *policy.Policy, name string) (*authz.Role, bool) {
			entry, ok := p.Roles[name]
			if !ok {
				return nil, false
			}
			entry = *entry.DeepCopy()
			role := &authz.Role{ObjectMeta: entry.ObjectMeta, Rules: entry.Rules}
			role.Name, role.Namespace = name, p.Namespace
			role.OwnerReferences = nil
			if status, ok := p.Status.Roles[name]; ok {
				role.Status = *status.DeepCopy()
			}
			return role, true
		},
		put: policycodec.PutRole,
		drop: func(p *policy.Policy, name string) {
			p.Roles, p.Status.Roles = without(p.Roles, name), without(p.Status.Roles, name)
		},
		modified:    func(p *policy.Policy, now metav1.Time) { p.LastModified = now },
		clearStatus: func(p *policy.Policy) { p.Status = policy.PolicyStatus{} },
	}
}

// without returns the map without a key, and leaves the map itself alone.
func without[V any](m map[string]V, key string) map[string]V {
	if _, ok := m[key]; !ok {
		return m
	}
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// roles is the view on what policies hold.
type roles struct {
	cfg      Config
	policies *containers[*policy.Policy, *authz.Role]
	bindings *containers[*policy.PolicyBinding, *authz.RoleBinding]
	guards   *protections
}

func (s *roles) view() *view[*policy.Policy, *authz.Role] {
	return &view[*policy.Policy, *authz.Role]{
		kind:       roleKind(s.cfg, s.guards),
		containers: s.policies,
		candidates: func(string) []string { return []string{policy.PolicyName} },
		home:       func(*authz.Role) string { return policy.PolicyName },
		open:       s.open,
		admit:      s.admit,
		confirm:    func(context.Context, *authz.Role) error { return nil },
		release:    s.release,
		setItems: func(list runtime.Object, items []*authz.Role) {
			to := cast[*authz.RoleList](list)
			to.Items = make([]authz.Role, 0, len(items))
			for _, r := range items {
				to.Items = append(to.Items, *r)
			}
		},
	}
}

// open refuses a role in a namespace that has no Policy: a cluster admin decides which namespaces have roles of their
// own.
func (s *roles) open(ctx context.Context, r *authz.Role, _ bool) error {
	_, err := s.policies.read(ctx, r.Namespace, policy.PolicyName, "")
	if !apierrors.IsNotFound(err) {
		return err
	}
	return apierrors.NewInvalid(authz.Kind("Role"), r.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "namespace"), r.Namespace,
		fmt.Sprintf("the namespace cannot hold roles yet: a cluster admin has to create its Policy %q first, with `proviso policy open %s`", policy.PolicyName, r.Namespace))})
}

// admit refuses rules that give more than the caller has. Rules that stay the same give nothing.
func (s *roles) admit(ctx context.Context, r, old *authz.Role) error {
	if old != nil && equality.Semantic.DeepEqual(r.Rules, old.Rules) {
		return nil
	}
	return forbidden(s.cfg.Escalation.ConfirmRole(ctx, r.DeepCopy(), old.DeepCopy()), "roles", r.Name)
}

// forbidden makes an error of a check the caller's: a 403, unless it says what else it is.
func forbidden(err error, resource, name string) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(apierrors.APIStatus); ok { // a wrapped status is not the answer itself
		return err
	}
	return apierrors.NewForbidden(authz.Resource(resource), name, err)
}

// release refuses to remove a role that is bound. A binding can be written at the same moment, possibly through another
// server. So the role is marked first, then the bindings are looked at, then exactly the marked version is removed; who
// writes a binding looks for the mark afterwards. One of the two always sees the other. In the background a role that
// is bound keeps the mark, cannot be bound any more, and goes with its last binding: so a file with a role and its
// binding can be deleted in its order.
func (s *roles) release(ctx context.Context, r *authz.Role, background, dryRun bool) (string, error) {
	bound := s.unbound(ctx, r)
	switch {
	case bound != nil && (!background || !apierrors.IsConflict(bound)):
		return "", bound
	case dryRun && bound != nil:
		return "", s.pending(ctx, r, bound)
	case dryRun:
		return r.ResourceVersion, nil
	case bound != nil && r.DeletionTimestamp != nil:
		return "", s.pending(ctx, r, bound)
	}
	marked, err := s.mark(ctx, r, r.ResourceVersion, true)
	if err != nil {
		return "", err
	}
	if err := s.unbound(ctx, r); err != nil {
		if background && apierrors.IsConflict(err) {
			return "", s.pending(ctx, r, err)
		}
		if _, undo := s.mark(context.WithoutCancel(ctx), r, marked, false); undo != nil && !errors.Is(undo, errChanged) {
			return "", apierrors.NewInternalError(fmt.Errorf("%w; the role stays marked as being deleted (%w): delete it again", err, undo))
		}
		return "", err
	}
	return marked, nil
}

// pending tells the caller what a marked role waits for.
func (s *roles) pending(ctx context.Context, r *authz.Role, bound error) error {
	reason := bound.Error()
	var status *apierrors.StatusError
	if errors.As(bound, &status) && status.ErrStatus.Message != "" {
		reason = status.ErrStatus.Message
	}
	if _, why, ok := strings.Cut(reason, ": "); ok {
		reason = why
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("role %q is not deleted yet: %s; it is deleted with the last of them", r.Name, reason))
	return errPending
}

// finish removes a role that was marked, once nothing binds it any more. It fails silently: the next deletion of the
// role, or the server's own look at marked roles, does it.
func (s *roles) finish(ctx context.Context, namespace, name string) {
	p, err := s.policies.read(ctx, namespace, policy.PolicyName, "")
	if err != nil {
		return
	}
	r, ok := s.policies.get(p, name)
	if !ok || r.DeletionTimestamp == nil || s.unbound(ctx, r) != nil {
		return
	}
	err = s.policies.update(ctx, namespace, policy.PolicyName, false, func(p *policy.Policy, _ string) (bool, error) {
		now, ok := s.policies.get(p, name)
		if !ok || now.UID != r.UID || now.DeletionTimestamp == nil {
			return false, nil
		}
		s.policies.drop(p, name)
		return true, nil
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("A role that nothing binds any more was not removed yet", "namespace", namespace, "role", name, "err", err)
	}
}

// mark sets or removes the time of deletion of one version of a role and returns the new version.
func (s *roles) mark(ctx context.Context, r *authz.Role, version string, deleting bool) (string, error) {
	marked := ""
	err := s.policies.update(ctx, r.Namespace, policy.PolicyName, false, func(p *policy.Policy, next string) (bool, error) {
		now, ok := s.policies.get(p, r.Name)
		if !ok || now.UID != r.UID || now.ResourceVersion != version {
			return false, errChanged
		}
		now.DeletionTimestamp = nil
		if deleting {
			now.DeletionTimestamp = new(metav1.Now().Rfc3339Copy())
		}
		now.ResourceVersion, marked = next, next
		s.policies.put(p, now)
		return true, nil
	})
	return marked, err
}

// unbound refuses a role that is bound, naming the bindings.
func (s *roles) unbound(ctx context.Context, r *authz.Role) error {
	candidates, err := s.bindingsTo(ctx, r.Namespace)
	if err != nil {
		return err
	}
	var users []string
	for _, b := range candidates {
		for _, name := range slices.Sorted(maps.Keys(b.RoleBindings)) {
			if b.RoleBindings[name].RoleName == r.Name && b.RoleBindings[name].RoleRef == nil {
				users = append(users, b.Namespace+"/"+name)
			}
		}
	}
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	return apierrors.NewConflict(authz.Resource("roles"), r.Name, fmt.Errorf("it is bound by %s; delete these first", enumerate("role bindings", users)))
}

// bindingsTo returns the containers of all bindings that can refer to roles of a namespace: one, or one per namespace
// if it is the master namespace.
func (s *roles) bindingsTo(ctx context.Context, namespace string) ([]policy.PolicyBinding, error) {
	if namespace != s.cfg.MasterNamespace {
		b, err := s.bindings.holding(ctx, namespace, namespace, "")
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []policy.PolicyBinding{*b}, nil
	}
	list, err := s.bindings.store.List(s.bindings.context(ctx, metav1.NamespaceAll), &metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", namespace)})
	if err != nil {
		return nil, err
	}
	all, ok := list.(*policy.PolicyBindingList)
	if !ok {
		return nil, fmt.Errorf("list of policy bindings has type %T", list)
	}
	var holding []policy.PolicyBinding
	for i := range all.Items {
		stale, err := s.bindings.places.stale(ctx, &all.Items[i])
		if err != nil {
			return nil, err
		}
		if !stale {
			holding = append(holding, all.Items[i])
		}
	}
	return holding, nil
}
