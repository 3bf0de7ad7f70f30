package ruleset

import (
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Part is which rules of Policy an index holds. A rule that is not enforced is never in the index that decides, so
// nothing about it, not even its size, can change a decision (TR-6).
type Part uint8

const (
	// Enforced are the rules that decide.
	Enforced Part = iota
	// Shadowed are the rules that are only evaluated: their enforcement is Warn or Shadow.
	Shadowed
	// Written are all rules, as if each were enforced.
	Written
)

func (p Part) has(r *policyv1alpha1.PolicyRule) bool {
	return p == Written || r.Shadowed() == (p == Shadowed)
}

// of returns the rules that belong to the part. It allocates only if some do not.
func (p Part) of(rules []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
	if !slices.ContainsFunc(rules, func(r policyv1alpha1.PolicyRule) bool { return !p.has(&r) }) {
		return rules
	}
	return slices.DeleteFunc(slices.Clone(rules), func(r policyv1alpha1.PolicyRule) bool { return !p.has(&r) })
}

// HasShadow reports whether some rule is not enforced.
func HasShadow(rules []policyv1alpha1.PolicyRule) bool {
	for i := range rules {
		if rules[i].Shadowed() {
			return true
		}
	}
	return false
}

// Shadows keeps an index of the rules that are not enforced beside the one that decides. It holds only the roles with
// such rules, and their bindings: without them there is no index and no cost.
type Shadows struct {
	index *Index
	// roles are the roles that have such rules, by the namespace of their policy.
	roles map[string]map[string]bool
}

// Apply follows the changes that led to decides, and returns the index of the rules that are not enforced; nil if there
// are none.
func (s *Shadows) Apply(decides *Index, changes []Change) *Index {
	var own []Change
	for _, c := range changes {
		switch o := c.object.(type) {
		case *policyv1alpha1.Policy:
			own = append(own, s.policy(decides, o, c.deleted)...)
		case *policyv1alpha1.PolicyBinding:
			own = append(own, s.container(o, c.deleted || c.denying)...)
		}
	}
	switch {
	case len(s.roles) == 0:
		s.index = nil
		return nil
	case s.index == nil:
		empty := &Index{seed: decides.seed, master: decides.master, kinds: decides.kinds, compile: decides.compile, limits: decides.limits, part: Shadowed}
		s.index = empty.Apply(own...).during(decides.moment)
		return s.index
	}
	for _, c := range changes {
		if _, again := c.object.(recheck); again {
			own = append(own, c)
		}
	}
	if s.index.kinds != decides.kinds {
		own = append(own, SetKinds(decides.kinds))
	}
	if len(own) > 0 {
		s.index = s.index.Apply(own...)
	}
	if s.index.moment != decides.moment {
		s.index = s.index.during(decides.moment)
	}
	return s.index
}

// policy keeps the rules of a container that are not enforced. If the set of roles with such rules changes, their
// bindings are added and removed.
func (s *Shadows) policy(decides *Index, p *policyv1alpha1.Policy, deleted bool) []Change {
	if p.Name != policyv1alpha1.PolicyName {
		return nil
	}
	reduced := &policyv1alpha1.Policy{ObjectMeta: p.ObjectMeta, Roles: map[string]policyv1alpha1.PolicyRole{}}
	now := map[string]bool{}
	for name, role := range p.Roles {
		if !deleted && HasShadow(role.Rules) {
			now[name], reduced.Roles[name] = true, role
		}
	}
	before := s.roles[p.Namespace]
	if len(before) == 0 && len(now) == 0 {
		return nil
	}
	if len(now) == 0 {
		delete(s.roles, p.Namespace)
	} else {
		if s.roles == nil {
			s.roles = map[string]map[string]bool{}
		}
		s.roles[p.Namespace] = now
	}
	changes := []Change{Put(reduced)}
	if len(now) == 0 {
		changes[0] = Delete(reduced)
	}
	same := len(before) == len(now)
	for name := range now {
		same = same && before[name]
	}
	if !same {
		decides.containers.Each(func(key nsName, c *policyv1alpha1.PolicyBinding) bool {
			if key.name == p.Namespace {
				changes = append(changes, s.container(c, false)...)
			}
			return true
		})
	}
	return changes
}

// container keeps the bindings of roles that have rules which are not enforced. Those of a namespace that is being
// deleted no longer matter.
func (s *Shadows) container(c *policyv1alpha1.PolicyBinding, gone bool) []Change {
	roles := s.roles[c.Name]
	reduced := &policyv1alpha1.PolicyBinding{ObjectMeta: c.ObjectMeta, PolicyRef: c.PolicyRef, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	for name, b := range c.RoleBindings {
		if !gone && roles[b.RoleName] && b.RoleRef == nil {
			reduced.RoleBindings[name] = b
		}
	}
	if len(reduced.RoleBindings) == 0 {
		if s.index == nil {
			return nil
		}
		return []Change{Delete(reduced)}
	}
	return []Change{Put(reduced)}
}

// Shadows visits the rules of the index that are not enforced, in no order.
func (ix *Index) Shadows(visit func(role RoleRef, index int, rule *policyv1alpha1.PolicyRule)) {
	if ix == nil {
		return
	}
	ix.Definitions(func(d *Definition) {
		if d.Ref != d.Ref.plain() {
			return
		}
		for i := range d.Policy {
			if d.Policy[i].Shadowed() {
				visit(d.Ref, i, &d.Policy[i])
			}
		}
	})
}
