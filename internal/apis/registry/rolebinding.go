package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/state/policycodec"
)

func roleBindingKind(masterNamespace string) *kind[*authz.RoleBinding] {
	return &kind[*authz.RoleBinding]{
		version: authz.SchemeGroupVersion, plural: "rolebindings", singular: "rolebinding", shortNames: []string{"prb"}, namespaced: true,
		newObject: func() *authz.RoleBinding { return &authz.RoleBinding{} },
		newList:   func() runtime.Object { return &authz.RoleBindingList{} },
		columns: []column[*authz.RoleBinding]{
			{name: "Role", description: "The role that is bound, with its namespace.", cell: func(b *authz.RoleBinding) any { return roleCell(b.RoleRef) }},
			{name: "Users", description: "The users that have the role.", cell: func(b *authz.RoleBinding) any { return strings.Join(b.UserNames, ",") }},
			{name: "Groups", description: "The groups whose members have the role.", cell: func(b *authz.RoleBinding) any { return strings.Join(b.GroupNames, ",") }},
			{name: "State", description: "Whether the role binding counts: Active, Pending before notBefore, Expired from notAfter on.", cell: func(b *authz.RoleBinding) any { return stateOf(b, time.Now()) }},
			{name: "Until", description: "When the role binding ceases to count.", cell: func(b *authz.RoleBinding) any { return until(b) }},
		},
		prepare: func(b, _ *authz.RoleBinding) { policycodec.SettleRoleRef(b, masterNamespace) },
		validate: func(_ context.Context, b, old *authz.RoleBinding) field.ErrorList {
			return validate.RoleBinding(b, old, masterNamespace)
		},
		warn: func(_ context.Context, b, _ *authz.RoleBinding) []string {
			var warnings []string
			if len(b.UserNames)+len(b.GroupNames) == 0 {
				warnings = append(warnings, "userNames, groupNames: both are empty: the binding gives the role to nobody")
			}
			if stateOf(b, time.Now()) == expired {
				warnings = append(warnings, "notAfter: it is past: the binding gives the role to nobody")
			}
			return warnings
		},
		sameContent: sameBinding,
	}
}

// The states of a role binding, which are computed when it is read.
const (
	active  = "Active"
	pending = "Pending"
	expired = "Expired"
)

func stateOf(b *authz.RoleBinding, now time.Time) string {
	switch {
	case b.NotAfter != nil && !now.Before(b.NotAfter.Time):
		return expired
	case b.NotBefore != nil && now.Before(b.NotBefore.Time):
		return pending
	}
	return active
}

func until(b *authz.RoleBinding) string {
	if b.NotAfter == nil {
		return ""
	}
	return b.NotAfter.UTC().Format(time.RFC3339)
}

func roleCell(ref authz.RoleRef) string {
	if ref.ClusterRole() {
		return ref.Kind + "/" + ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}

func sameBinding(a, b *authz.RoleBinding) bool {
	return a.RoleRef == b.RoleRef && a.NotBefore.Equal(b.NotBefore) && a.NotAfter.Equal(b.NotAfter) && equality.Semantic.DeepEqual(a.UserNames, b.UserNames) && equality.Semantic.DeepEqual(a.GroupNames, b.GroupNames)
}

// roleBindingLayout says where role bindings are in a PolicyBinding.
func roleBindingLayout() layout[*policy.PolicyBinding, *authz.RoleBinding] {
	return layout[*policy.PolicyBinding, *authz.RoleBinding]{
		names: func(b *policy.PolicyBinding) []string { return slices.Sorted(maps.Keys(b.RoleBindings)) },
		get: func(b *policy.PolicyBinding, name string) (*authz.RoleBinding, bool) {
			entry, ok := b.RoleBindings[name]
			if !ok {
				return nil, false
			}
			entry = *entry.DeepCopy()
			binding := &authz.RoleBinding{
				ObjectMeta: entry.ObjectMeta, UserNames: entry.UserNames, GroupNames: entry.GroupNames,
				RoleRef: policycodec.RoleRefOf(&entry, b.PolicyRef.Namespace), NotBefore: entry.NotBefore, NotAfter: entry.NotAfter,
			}
			binding.Name, binding.Namespace = name, b.Namespace
			binding.OwnerReferences = nil
			if slices.Contains(entry.Spellings, policy.SpellingRoleName) {
				binding.RoleName = entry.RoleName
			}
			binding.ReferencesGlobalRole = slices.Contains(entry.Spellings, policy.SpellingGlobalRole)
			return binding, true
		},
		put: policycodec.PutRoleBinding,
		drop: func(b *policy.PolicyBinding, name string) {
			b.RoleBindings = without(b.RoleBindings, name)
			b.Status.Unresolved = slices.DeleteFunc(slices.Clone(b.Status.Unresolved), func(n string) bool { return n == name })
		},
		modified:    func(b *policy.PolicyBinding, now metav1.Time) { b.LastModified = now },
		clearStatus: func(b *policy.PolicyBinding) { b.Status = policy.PolicyBindingStatus{} },
	}
}

// roleBindings is the view on what policy bindings hold. A namespace has at most two of those: one that refers to its
// own policy and one that refers to the master namespace's.
type roleBindings struct {
	cfg      Config
	policies *containers[*policy.Policy, *authz.Role]
	bindings *containers[*policy.PolicyBinding, *authz.RoleBinding]
	guards   *protections
}

func (s *roleBindings) view() *view[*policy.PolicyBinding, *authz.RoleBinding] {
	return &view[*policy.PolicyBinding, *authz.RoleBinding]{
		kind:       roleBindingKind(s.cfg.MasterNamespace),
		containers: s.bindings,
		candidates: s.candidates,
		home:       s.home,
		open:       s.open,
		admit:      s.admit,
		confirm:    s.confirm,
		release:    s.release,
		removed: func(ctx context.Context, b *authz.RoleBinding) {
			if b.RoleRef.ClusterRole() {
				return
			}
			(&roles{cfg: s.cfg, policies: s.policies, bindings: s.bindings}).finish(ctx, b.RoleRef.Namespace, b.RoleRef.Name)
		},
		setItems: func(list runtime.Object, items []*authz.RoleBinding) {
			to := cast[*authz.RoleBindingList](list)
			to.Items = make([]authz.RoleBinding, 0, len(items))
			for _, b := range items {
				to.Items = append(to.Items, *b)
			}
		},
	}
}

func (s *roleBindings) home(b *authz.RoleBinding) string {
	return policycodec.Home(b, s.cfg.MasterNamespace)
}

func (s *roleBindings) candidates(namespace string) []string {
	if namespace == s.cfg.MasterNamespace {
		return []string{namespace}
	}
	return []string{namespace, s.cfg.MasterNamespace}
}

// open makes the container of bindings to the master namespace, and refuses a binding to a role of the own namespace if
// a cluster admin has not made its container.
func (s *roleBindings) open(ctx context.Context, b *authz.RoleBinding, dryRun bool) error {
	_, err := s.bindings.read(ctx, b.Namespace, s.home(b), "")
	if !apierrors.IsNotFound(err) {
		return err
	}
	if s.home(b) != s.cfg.MasterNamespace {
		return invalidBinding(b, field.Invalid(field.NewPath("roleRef", "namespace"), b.RoleRef.Namespace, fmt.Sprintf(
			"the namespace cannot bind roles of its own yet: a cluster admin has to create its PolicyBinding %q first, with `proviso policy open %s`", b.RoleRef.Namespace, b.Namespace)))
	}
	if dryRun {
		return nil
	}
	container := &policy.PolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: s.cfg.MasterNamespace},
		PolicyRef:  policy.PolicyReference{Namespace: s.cfg.MasterNamespace},
	}
	if err := s.bindings.create(ctx, container); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func invalidBinding(b *authz.RoleBinding, err *field.Error) error {
	return apierrors.NewInvalid(authz.Kind("RoleBinding"), b.Name, field.ErrorList{err})
}

// admit refuses a binding whose role does not exist or gives more than the caller has.
func (s *roleBindings) admit(ctx context.Context, b, old *authz.RoleBinding) error {
	if old != nil && sameBinding(b, old) {
		return nil
	}
	role, err := s.role(ctx, b, old != nil)
	if err != nil {
		return err
	}
	err = s.cfg.Escalation.ConfirmRoleBinding(ctx, b.DeepCopy(), old.DeepCopy(), role)
	if apierrors.IsNotFound(err) && b.RoleRef.ClusterRole() {
		return invalidBinding(b, field.Invalid(field.NewPath("roleRef", "name"), b.RoleRef.Name, "there is no such ClusterRole; create it first"))
	}
	if err == nil && s.guards != nil {
		of := EvadableRole{Role: b.RoleRef, Rules: role.Rules, Namespace: b.Namespace, UserNames: b.UserNames, GroupNames: b.GroupNames, Caller: s.guards.caller(ctx)}
		for _, text := range s.cfg.Rules.Evadable(of) {
			warning.AddWarning(ctx, "", text)
		}
	}
	return forbidden(err, "rolebindings", b.Name)
}

// release refuses to take away what denies something, since that gives power. A role that is gone denies nothing. The
// end of the namespace is no exception: its containers go with it, and until then they deny.
func (s *roleBindings) release(ctx context.Context, b *authz.RoleBinding, _, _ bool) (string, error) {
	if b.RoleRef.ClusterRole() {
		return b.ResourceVersion, nil // roles of RBAC deny nothing
	}
	p, err := s.policies.holding(ctx, b.RoleRef.Namespace, policy.PolicyName, "")
	if apierrors.IsNotFound(err) {
		return b.ResourceVersion, nil
	}
	if err != nil {
		return "", err
	}
	role, ok := p.Roles[b.RoleRef.Name]
	if !ok {
		return b.ResourceVersion, nil
	}
	if err := s.holdsToTheEnd(ctx, b, role); err != nil {
		return "", err
	}
	return b.ResourceVersion, forbidden(s.cfg.Escalation.ConfirmUnbinding(ctx, b.DeepCopy(), *role.DeepCopy()), "rolebindings", b.Name)
}

// holdsToTheEnd refuses to unbind what denies while the namespace is being deleted, for every caller: the namespace
// controller deletes everything in whatever order, and can be system:masters. The binding goes with its container, when
// the namespace is gone.
func (s *roleBindings) holdsToTheEnd(ctx context.Context, b *authz.RoleBinding, role policy.PolicyRole) error {
	if b.Namespace == s.cfg.MasterNamespace || !slices.ContainsFunc(role.Rules, func(r policy.PolicyRule) bool { return r.Deny }) {
		return nil
	}
	live, err := s.bindings.places.live(ctx, b.Namespace)
	if err != nil || live == nil || !live.Terminating {
		return err
	}
	return apierrors.NewConflict(authz.Resource("rolebindings"), b.Name, fmt.Errorf(
		"its role has deny rules, and namespace %q is being deleted: the binding is deleted with the namespace", b.Namespace))
}

// role returns the role that a binding refers to, if it can be bound. One that is being deleted can no longer be bound,
// but existing bindings can still be changed: removing a subject must always be possible.
func (s *roleBindings) role(ctx context.Context, b *authz.RoleBinding, bound bool) (policy.PolicyRole, error) {
	if b.RoleRef.ClusterRole() {
		return policy.PolicyRole{}, nil // the escalation check looks at it
	}
	path := field.NewPath("roleRef", "name")
	p, err := s.policies.read(ctx, b.RoleRef.Namespace, policy.PolicyName, "")
	if err != nil && !apierrors.IsNotFound(err) {
		return policy.PolicyRole{}, err
	}
	if err == nil {
		if role, ok := p.Roles[b.RoleRef.Name]; ok {
			if role.DeletionTimestamp != nil && !bound {
				return policy.PolicyRole{}, invalidBinding(b, field.Invalid(path, b.RoleRef.Name, fmt.Sprintf("the role is being deleted from namespace %q", b.RoleRef.Namespace)))
			}
			return *role.DeepCopy(), nil
		}
	}
	return policy.PolicyRole{}, invalidBinding(b, field.Invalid(path, b.RoleRef.Name,
		fmt.Sprintf("there is no such role in namespace %q; create it first (roles.%s)", b.RoleRef.Namespace, authz.GroupName)))
}

// confirm looks for what could have changed while the binding was written: the role is being deleted, or the other
// container of the namespace got a binding of the same name.
func (s *roleBindings) confirm(ctx context.Context, b *authz.RoleBinding) error {
	if _, err := s.role(ctx, b, false); err != nil {
		return err
	}
	for _, other := range s.candidates(b.Namespace) {
		if other == s.home(b) {
			continue
		}
		c, err := s.bindings.read(ctx, b.Namespace, other, "")
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if _, taken := s.bindings.get(c, b.Name); taken {
			return apierrors.NewAlreadyExists(authz.Resource("rolebindings"), b.Name)
		}
	}
	return nil
}
