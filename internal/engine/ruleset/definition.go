package ruleset

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// These functions are for code that reasons about roles as such, like the escalation check. Decisions do not use them.

// Definition returns the role of that name, or nil if it does not exist.
func (ix *Index) Definition(ref RoleRef) *Definition {
	if r := ix.role(ref); r != nil {
		return &r.Definition
	}
	return nil
}

// Definitions visits every role.
func (ix *Index) Definitions(visit func(*Definition)) {
	ix.ids.Each(func(_ RoleRef, id uint32) bool {
		if r := ix.slots.Get(id); r != nil {
			visit(&r.Definition)
		}
		return true
	})
}

// RolesOf visits the roles that a user has, directly or through groups, where requests in the namespace are decided,
// tier by tier, until visit returns false. One role can come up more than once.
func (ix *Index) RolesOf(u user.Info, namespace string, tiers []Tier, visit func(Scope, *Definition) bool) {
	var q Query
	q.asked(ix, u, namespace)
	q.req.ResourceRequest = true
	for _, tier := range tiers {
		for _, kind := range q.scopes(tier) {
			for s, i := q.next(0); s != nil && kind != 0; s, i = q.next(i) {
				for _, g := range q.grants(s, kind) {
					if r := ix.slots.Get(g.id); r != nil && !visit(kind, &r.Definition) {
						return
					}
				}
			}
		}
	}
}

// LocalRolesOf visits the roles that Policy gives a user in single namespaces, all of them, until visit returns false.
func (ix *Index) LocalRolesOf(u user.Info, visit func(*Definition) bool) {
	var q Query
	q.asked(ix, u, "")
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		s.local().Each(func(_ string, l *local) bool {
			for _, g := range l.policy {
				if r := ix.slots.Get(g.id); r != nil && !visit(&r.Definition) {
					return false
				}
			}
			return true
		})
	}
}

// MasterRolesOf visits the roles that exactly this subject has in the master namespace.
func (ix *Index) MasterRolesOf(s Subject, visit func(*Definition)) {
	if has, ok := ix.subjects.Get(ix.hashSubject(s), s); ok {
		for _, g := range has.master() {
			if r := ix.slots.Get(g.id); r != nil {
				visit(&r.Definition)
			}
		}
	}
}

// BoundAnywhere reports whether a role is bound to exactly this subject, in whichever scope, whether it exists or not.
func (ix *Index) BoundAnywhere(ref RoleRef, s Subject) bool {
	id, ok := ix.ids.Get(ix.hashRole(ref), ref)
	if !ok {
		return false
	}
	has, ok := ix.subjects.Get(ix.hashSubject(s), s)
	if !ok {
		return false
	}
	bound := has.master().find(id) != nil || has.cluster.find(id) != nil
	has.local().Each(func(_ string, l *local) bool {
		bound = bound || l.policy.find(id) != nil || l.rbac.find(id) != nil
		return !bound
	})
	return bound
}

// Compile compiles rules that are in no role of the index, of Policy or of RBAC, such that they match everything that
// will ever be served. Rules that are not enforced count as if they were: their author needs the same rights.
func (ix *Index) Compile(policy []policyv1alpha1.PolicyRule, rbac []rbacv1.PolicyRule, conditions CompileRule) (*Definition, []Problem) {
	c := compiler{seed: ix.seed, kinds: ix.kinds, rule: conditions, future: true, part: Written}
	if len(rbac) > 0 {
		return &c.rbacRole(RoleRef{Kind: ClusterRole}, rbac).Definition, nil
	}
	out := c.policyRole(RoleRef{Kind: PolicyRole}, &roleSource{policy: policy}, nil)
	return &out.Definition, out.problems
}

// AsKind turns the request into one about a resource that would have this kind if it is ever served.
func (q *Query) AsKind(kind string) { q.req.AsKind(q.ix.seed, kind) }
