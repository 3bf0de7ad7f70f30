package ruleset

import (
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Object is a kind of object that the index is built from.
type Object interface {
	*policyv1alpha1.Policy | *policyv1alpha1.PolicyBinding |
		*rbacv1.Role | *rbacv1.ClusterRole | *rbacv1.RoleBinding | *rbacv1.ClusterRoleBinding
}

// Change is one step from one index to the next.
type Change struct {
	object  any
	deleted bool
	denying bool
}

// Put adds an object or replaces the one of the same name. The object must not be changed afterwards.
func Put[T Object](o T) Change { return Change{object: o} }

// PutDenying is Put for bindings that no longer grant anything, while the deny rules of their roles still apply.
func PutDenying(o *policyv1alpha1.PolicyBinding) Change { return Change{object: o, denying: true} }

// Delete removes the object of that name; it uses only the name and namespace.
func Delete[T Object](o T) Change { return Change{object: o, deleted: true} }

// SetKinds replaces the mapping of kinds, as when a custom resource definition comes or goes. Only roles that mention a
// name whose meaning changed are compiled again.
func SetKinds(k *matching.Kinds) Change { return Change{object: k} }

// Recheck recompiles the roles with such a rule, for example when its condition turned out not to compile.
func Recheck(concerned func(*policyv1alpha1.PolicyRule) bool) Change {
	return Change{object: recheck(concerned)}
}

type recheck func(*policyv1alpha1.PolicyRule) bool

// note adds one change to the edit. Later changes of the same object replace earlier ones.
func (e *edit) note(c Change) {
	switch o := c.object.(type) {
	case *policyv1alpha1.Policy:
		e.policy(o, c.deleted)
	case *policyv1alpha1.PolicyBinding:
		e.policyBinding(o, c.deleted, c.denying)
	case *rbacv1.Role:
		e.rbacRole(RoleRef{Role, o.Namespace, o.Name}, o.Rules, c.deleted)
	case *rbacv1.ClusterRole:
		e.rbacRole(RoleRef{Kind: ClusterRole, Name: o.Name}, o.Rules, c.deleted)
	case *rbacv1.RoleBinding:
		ref := BindingRef{Kind: RoleBinding, Namespace: o.Namespace, Name: o.Name}
		e.binding(ref, func() *binding { return rbacBinding(ref, o.RoleRef, o.Subjects) }, c.deleted)
	case *rbacv1.ClusterRoleBinding:
		ref := BindingRef{Kind: ClusterRoleBinding, Name: o.Name}
		e.binding(ref, func() *binding { return rbacBinding(ref, o.RoleRef, o.Subjects) }, c.deleted)
	case *matching.Kinds:
		e.kinds, e.kindsSet = o, true
	case recheck:
		e.rechecks = append(e.rechecks, o)
	}
}

func (e *edit) rbacRole(ref RoleRef, rules []rbacv1.PolicyRule, deleted bool) {
	if deleted {
		e.roles[ref] = nil
		return
	}
	e.roles[ref] = &roleSource{rbac: rules}
}

func (e *edit) binding(ref BindingRef, b func() *binding, deleted bool) {
	if deleted {
		e.bindings[ref] = nil
		return
	}
	e.bindings[ref] = b()
}

// policy adds a container of roles: roles that the container no longer has are deleted.
func (e *edit) policy(p *policyv1alpha1.Policy, deleted bool) {
	if p.Name != policyv1alpha1.PolicyName {
		e.stray(nsName{p.Namespace, p.Name}, deleted)
		return
	}
	h := e.next.hash(p.Namespace)
	if old, ok := e.next.policies.Get(h, p.Namespace); ok {
		e.doubt(old)
		for name := range old.Roles {
			ref := RoleRef{PolicyRole, p.Namespace, name}
			e.roles[ref] = nil
		}
	}
	e.unreadable(containerRef{"Policy", p.Namespace, p.Name}, p.Annotations, nil, deleted)
	if deleted {
		e.next.policies.Remove(e.owner, h, p.Namespace)
		return
	}
	e.doubt(p)
	e.next.policies.Set(e.owner, h, p.Namespace, p)
	over := e.next.limits.policy(p, e.next.master, e.next.part)
	for name := range p.Roles {
		ref := RoleRef{PolicyRole, p.Namespace, name}
		e.roles[ref] = &roleSource{policy: effective(ref, p.Roles[name].Rules), over: over}
	}
}

// doubt records a policy that cannot be read completely.
func (e *edit) doubt(p *policyv1alpha1.Policy) {
	if p.Annotations[policyv1alpha1.AnnotationQuarantined] != "" {
		e.doubted[p.Namespace] = true
	}
}

// policyBinding adds a container of bindings in the same way.
func (e *edit) policyBinding(c *policyv1alpha1.PolicyBinding, deleted, denying bool) {
	key := nsName{c.Namespace, c.Name}
	h := e.next.hashName(key)
	ref := func(name string) BindingRef {
		return BindingRef{Kind: PolicyRoleBinding, Namespace: c.Namespace, Container: c.Name, Name: name}
	}
	if old, ok := e.next.containers.Get(h, key); ok {
		for name := range old.RoleBindings {
			e.bindings[ref(name)] = nil
			e.untimed(ref(name))
		}
	}
	e.unreadable(containerRef{"PolicyBinding", c.Namespace, c.Name}, c.Annotations, c.RoleBindings, deleted)
	if deleted {
		e.next.containers.Remove(e.owner, h, key)
		return
	}
	e.next.containers.Set(e.owner, h, key, c)
	for name := range c.RoleBindings {
		entry := c.RoleBindings[name]
		b := policyBinding(c, name, &entry, e.next.master)
		ending := denying && b.problem == nil
		if ending {
			b.bind(b.named.twin(), "its namespace is being deleted, or is not known")
		}
		if t := timedBinding(&entry, b, ending); t != nil {
			e.timed[ref(name)] = t
			continue
		}
		e.untimed(ref(name))
		e.bindings[ref(name)] = b
	}
}
