package compile

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"proviso.dev/proviso/internal/engine/protectedattr"
)

// Whether the caller is a member of a role is a question to RBAC: whether they have a right that only the role gives.
// No server serves such a resource. RBAC also says yes to subjects that may do everything with everything; a verb that
// no role grants distinguishes them from members.
const (
	memberGroup    = "compile.proviso.dev"
	memberResource = "roles"
	memberVerb     = "member"
	strangerVerb   = "stranger"
)

type rbacRule = rbacv1.PolicyRule

// memberName is the name that a role has in that question.
func memberName(r protectedattr.Role) string {
	switch r.Kind {
	case protectedattr.KindPolicyRole:
		return "Policy/" + r.Namespace + "/" + r.Name
	case protectedattr.KindRole:
		return "Role/" + r.Namespace + "/" + r.Name
	}
	return "ClusterRole/" + r.Name
}

// memberRules are the rules of RBAC that make a member.
func memberRules(r protectedattr.Role) []rbacRule {
	return []rbacRule{{APIGroups: []string{memberGroup}, Resources: []string{memberResource}, ResourceNames: []string{memberName(r)}, Verbs: []string{memberVerb}}}
}

// marks reports whether a rule of RBAC makes members of a role, and of no other by way of a pattern.
func marks(rule rbacRule, name string) bool {
	return slices.Contains(rule.APIGroups, memberGroup) && slices.Contains(rule.Resources, memberResource) &&
		slices.Contains(rule.ResourceNames, name) && slices.Contains(rule.Verbs, memberVerb)
}

// isMember is true in CEL for members of a role where the object is. A namespace is not in itself.
func isMember(r protectedattr.Role) string {
	check := func(verb string) string {
		return fmt.Sprintf(`authorizer.group(%q).resource(%q).namespace(%s == "" && %s == "namespaces" ? "" : %s).name(%q).check(%q).allowed()`,
			memberGroup, memberResource, celGroup, celPlural, celPlace, memberName(r), verb)
	}
	return check(memberVerb) + " && !" + check(strangerVerb)
}
