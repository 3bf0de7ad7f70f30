package ruleset

import "k8s.io/apiserver/pkg/authentication/user"

// Bound reports whether the user, directly or through a group, is bound to exactly that role: by a role binding in the
// namespace, by a cluster role binding, or by a binding of Policy there or in the master namespace. A role that does
// not exist has no members, so references to one fail closed. This holds for system:masters, too; a caller that exempts
// it has to check that first.
func (ix *Index) Bound(u user.Info, ref RoleRef, namespace string) bool {
	if u == nil || ref.Kind == 0 {
		return false
	}
	id, ok := ix.ids.Get(ix.hashRole(ref), ref)
	if !ok || ix.slots.Get(id) == nil {
		return false
	}
	var q Query
	q.ix, q.req.Namespace = ix, namespace
	if namespace != "" {
		q.req.NamespaceHash = ix.hash(namespace)
	}
	q.setUser(u)
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		if s.cluster.find(id) != nil || q.grants(s, ScopeRBAC).find(id) != nil || s.master().find(id) != nil || q.grants(s, ScopePolicy).find(id) != nil {
			return true
		}
	}
	return false
}
