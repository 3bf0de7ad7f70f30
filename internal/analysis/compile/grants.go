package compile

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// grantRules returns the RBAC rules for what a unit allows.
func grantRules(u *unit) (rules []rbacv1.PolicyRule) {
	type right struct{ group, verbs string }
	var order []right
	resources := map[right][]string{}
	for _, r := range u.at {
		k := right{r.Group, strings.Join(r.verbs, ",")}
		if resources[k] == nil {
			order = append(order, k)
		}
		resources[k] = append(resources[k], r.name())
	}
	for _, k := range order {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{k.group}, Resources: resources[k], Verbs: strings.Split(k.verbs, ","), ResourceNames: u.rule.Names})
	}
	return rules
}

// pathRules are the rules of RBAC for paths, which a rule has for the whole cluster only.
func pathRules(u *unit) []rbacv1.PolicyRule {
	if len(u.rule.URLs) == 0 || u.scope != "" || hasCondition(u.src) {
		return nil
	}
	var words []string
	for _, v := range []string{"get", "head", "options", "post", "put", "patch", "delete"} {
		if plainVerb(u, v) {
			words = append(words, v)
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []rbacv1.PolicyRule{{NonResourceURLs: u.rule.URLs, Verbs: words}}
}

// plainVerb reports whether a rule for paths has a verb of HTTP. RBAC asks about these by the same names.
func plainVerb(u *unit, verb string) bool {
	return u.rule.Verbs.Matches(&matching.Request{Verb: verb, Bit: matching.BitOf(verb)})
}

// grant is a role with the rules of all units of a role where it is bound, and the binding; nothing if it allows
// nothing.
func (c *compiler) grant(b *bound, units []*unit) []runtime.Object {
	var rules []rbacv1.PolicyRule
	for _, u := range units {
		rules = append(append(rules, grantRules(u)...), pathRules(u)...)
	}
	return c.give(b, rules)
}

// give is a role with rules where a role is bound, and the binding.
func (c *compiler) give(b *bound, rules []rbacv1.PolicyRule) []runtime.Object {
	subjects := subjectsOf(b)
	if len(rules) == 0 || len(subjects) == 0 {
		return nil
	}
	parts := cutSubjects(subjects)
	role := c.giveTo(b, rules, parts[0])
	for _, more := range parts[1:] {
		role = append(role, c.giveTo(b, rules, more)...)
	}
	return role
}

func (c *compiler) giveTo(b *bound, rules []rbacv1.PolicyRule, subjects []rbacv1.Subject) []runtime.Object {
	name := nameOf(b.role, -1, b.scope, []any{rules, subjects})
	meta := metav1.ObjectMeta{Name: name, Namespace: b.scope}
	c.label(&meta, b.role.Namespace+"/"+b.role.Name, waveGrants)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	if b.scope == "" {
		return []runtime.Object{
			&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta, Rules: rules},
			&rbacv1.ClusterRoleBinding{TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref},
		}
	}
	ref.Kind = "Role"
	return []runtime.Object{
		&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref},
	}
}

// bindRole is the binding of a cluster role of RBAC.
func (c *compiler) bindRole(b *bound) runtime.Object {
	subjects := subjectsOf(b)
	meta := metav1.ObjectMeta{Name: nameOf(b.role, -1, b.scope, subjects), Namespace: b.scope}
	c.label(&meta, "ClusterRole/"+b.role.Name, waveGrants)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role.Name}
	if b.scope == "" {
		return &rbacv1.ClusterRoleBinding{TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	}
	return &rbacv1.RoleBinding{TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// subjectsOf are those that a role is bound to. Members of system:masters have everything.
func subjectsOf(b *bound) (all []rbacv1.Subject) {
	for _, u := range b.users {
		all = append(all, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u})
	}
	for _, g := range b.groups {
		if g != masters {
			all = append(all, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g})
		}
	}
	return all
}
