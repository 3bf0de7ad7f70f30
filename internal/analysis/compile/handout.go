package compile

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"proviso.dev/proviso/internal/engine/verbs"
)

// handsOut is why subjects that are held, or denied something, get no right to write RBAC.
const handsOut = "right to write RBAC beside conditions and denies: RBAC's escalation check does not know them, so their subjects could hand on what they hold under a condition"

// withholdRBAC takes the right to write roles and bindings of RBAC out of rules, where any rule has a condition or
// denies. RBAC lets its writers grant what RBAC gives them, and of a compiled grant it does not know the condition.
func (c *compiler) withholdRBAC() {
	for _, u := range c.allows {
		if !c.limited(u.scope) {
			continue
		}
		for i, r := range u.at {
			if r.Group != rbacv1.GroupName {
				continue
			}
			u.at[i] = r.with(func(v string) bool {
				if !verbs.Stores(v) {
					return true
				}
				u.without(handsOut, r.name())
				return false
			})
		}
		u.at = slices.DeleteFunc(u.at, func(r reach) bool { return len(r.verbs) == 0 })
	}
}

// limited reports whether a condition or a deny holds somewhere in a scope.
func (c *compiler) limited(scope string) bool {
	there := &unit{bound: &bound{scope: scope}}
	for _, units := range c.units {
		if slices.ContainsFunc(units, func(o *unit) bool { return (o.src.Deny || hasCondition(o.src)) && there.overlaps(o) }) {
			return true
		}
	}
	return false
}

// withholds reports whether a cluster role of RBAC is not bound, since it has, or could have, the right to write RBAC.
func (c *compiler) withholds(b *bound) bool {
	if !c.limited(b.scope) {
		return false
	}
	d := c.in.Index.Definition(b.role)
	if d != nil && !slices.ContainsFunc(d.RBAC, writesRBAC) {
		return false
	}
	c.assess("ClusterRole/"+b.role.Name).loseOf(handsOut, "bound by Policy")
	return true
}

// writesRBAC reports whether a rule of RBAC has the right to write RBAC.
func writesRBAC(r rbacv1.PolicyRule) bool {
	named := func(list []string, words ...string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return one == "*" || slices.Contains(words, one) })
	}
	return named(r.APIGroups, rbacv1.GroupName) && named(r.Resources, "roles", "rolebindings", "clusterroles", "clusterrolebindings") &&
		named(r.Verbs, verbs.Create, verbs.Update, verbs.Patch)
}
