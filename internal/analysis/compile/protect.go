package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// maxRoles is how many roles can protect one label or annotation: a policy has a part for each set of roles that a
// caller can be a member of, and each membership costs two of the checks that a policy can pay for.
const maxRoles = 4

// family is the protections that decide together: those of one label or annotation in one place, or of a domain.
type family struct {
	// scope is a namespace, or empty for the whole cluster.
	scope       string
	kind        protectedattr.Attribute
	key         string
	protections []protectedattr.Protection
	// roles are those that some caller can be a member of, and said the assessments of the protections.
	roles []protectedattr.Role
	said  []*Assessment
}

// protectionName returns the name of a protection, for people and for --accept.
func protectionName(p *protectedattr.Protection) string {
	if p.Namespace == "" {
		return "ClusterProtectedAttribute/" + p.Name
	}
	return "ProtectedAttribute/" + p.Namespace + "/" + p.Name
}

// protect writes the policies of protected attributes, and the grants of membership that they ask for.
func (c *compiler) protect(out *Result) error {
	members := map[protectedattr.Role]bool{}
	for _, f := range c.families() {
		if !c.memberships(f) {
			continue
		}
		policies, err := c.guardAttribute(f)
		for _, p := range policies {
			if err == nil {
				err = c.checkPolicy(p)
			}
		}
		if err != nil {
			f.each(func(a *Assessment) { a.lose(err.Error()) })
			continue
		}
		for _, p := range policies {
			f.each(func(a *Assessment) { a.Policies = append(a.Policies, p.Name) })
			out.Policies = append(out.Policies, p, c.enact(p))
		}
		for _, r := range f.roles {
			if r.Kind == protectedattr.KindPolicyRole && !members[r] {
				members[r] = true
				out.Grants = append(out.Grants, c.grantMembership(r)...)
			}
		}
	}
	for _, g := range out.Grants {
		if err := sized(g); err != nil {
			return err
		}
	}
	return nil
}

func (f *family) each(do func(*Assessment)) {
	for _, a := range f.said {
		do(a)
	}
}

// families puts the protections together that decide together.
func (c *compiler) families() (all []*family) {
	type id struct {
		scope string
		kind  protectedattr.Attribute
		key   string
	}
	domains, found := map[id]bool{}, map[id]*family{}
	for _, p := range c.in.Protected.Protections {
		if domain, ok := strings.CutSuffix(p.Key, "/*"); ok {
			domains[id{p.Namespace, p.Attribute, domain}] = true
		}
	}
	for _, p := range c.in.Protected.Protections {
		said := c.assess(protectionName(&p))
		if p.Key == "" || p.Attribute > protectedattr.Annotation {
			said.lose("it does not say what it protects")
			continue
		}
		at := id{p.Namespace, p.Attribute, p.Key}
		if domain, _, _ := strings.Cut(p.Key, "/"); domains[id{p.Namespace, p.Attribute, domain}] {
			at.key = domain + "/*"
		}
		f := found[at]
		if f == nil {
			f = &family{scope: at.scope, kind: at.kind, key: at.key}
			found[at] = f
			all = append(all, f)
		}
		f.protections, f.said = append(f.protections, p), append(f.said, said)
		if role, ok := protectedattr.Reachable(&c.in.Protected, &p); ok && !slices.Contains(f.roles, role) {
			f.roles = append(f.roles, role)
		}
	}
	slices.SortFunc(all, func(a, b *family) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key))
	})
	for _, f := range all {
		slices.SortFunc(f.roles, func(a, b protectedattr.Role) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return all
}

// memberships reports whether RBAC there can tell who is a member of the roles. Who is bound to a role of Policy is
// compiled. A role of RBAC must say so itself, since bindings to it come and go without being compiled.
func (c *compiler) memberships(f *family) bool {
	if len(f.roles) > maxRoles {
		f.each(func(a *Assessment) {
			a.lose(fmt.Sprintf("%s %s is protected by %d roles in one place, and a policy can ask for %d: let one role have the members of several", f.kind, f.key, len(f.roles), maxRoles))
		})
		return false
	}
	ok := true
	for _, r := range f.roles {
		if r.Kind == protectedattr.KindPolicyRole {
			continue
		}
		ref := ruleset.RoleRef{Kind: ruleset.Role, Namespace: r.Namespace, Name: r.Name}
		if r.Kind == protectedattr.KindClusterRole {
			ref.Kind = ruleset.ClusterRole
		}
		d := c.in.Index.Definition(ref)
		if d != nil && slices.ContainsFunc(d.RBAC, func(rule rbacRule) bool { return marks(rule, memberName(r)) }) {
			continue
		}
		ok = false
		f.each(func(a *Assessment) {
			a.lose(fmt.Sprintf("RBAC does not tell who is bound to %s: add the rule {apiGroups: [%s], resources: [%s], resourceNames: [%q], verbs: [%s]} to it, and compile with it, or use a role of Policy",
				r, memberGroup, memberResource, memberName(r), memberVerb))
		})
	}
	return ok
}

// guardAttribute makes the policies of a family: one for all resources that have the attribute in their own metadata
// alone, and one for each group of others.
func (c *compiler) guardAttribute(f *family) (all []*admissionv1.ValidatingAdmissionPolicy, err error) {
	ix, err := protectedattr.New(protectedattr.Config{Protections: f.protections, Master: c.in.Protected.Master})
	if err != nil {
		return nil, err
	}
	of := func(r *plan.Resource) refusals { return c.refusals(ix, f, r) }
	for _, at := range c.alike(func(r *plan.Resource) string { return of(r).text() }) {
		all = append(all, c.protection(f, of(at.example), at))
	}
	f.each(func(a *Assessment) {
		a.harden("members who have all verbs of all resources by RBAC do not count as members")
		a.harden("a Binding that carries the attribute is refused, whatever its pod has")
		a.note("not on admission policies and webhook configurations themselves")
	})
	if slices.ContainsFunc(f.protections, func(p protectedattr.Protection) bool { return len(p.Resources) > 0 }) {
		f.each(func(a *Assessment) { a.note("resources that are served later are protected when it is compiled again") })
	}
	return all, nil
}

// refusal is what is refused to callers who are members of exactly some of the roles.
type refusal struct {
	members    []bool
	conditions []protectedattr.Condition
}

type refusals []refusal

// text identifies a refusal.
func (r refusals) text() string {
	var b strings.Builder
	for _, one := range r {
		fmt.Fprint(&b, one.members)
		for _, condition := range one.conditions {
			b.WriteString("\x00" + condition.Expression)
		}
	}
	return b.String()
}

// refusals asks the engine what it would refuse on a resource, for each set of roles that a caller can be a member of.
func (c *compiler) refusals(ix *protectedattr.Index, f *family, r *plan.Resource) (all refusals) {
	for set := range 1 << len(f.roles) {
		one := refusal{members: make([]bool, len(f.roles))}
		for i := range f.roles {
			one.members[i] = set>>i&1 == 1
		}
		one.conditions = ix.Conditions(&protectedattr.Request{
			Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: f.scope, Kinds: c.in.Index.Kinds(),
			Member: func(_ string, role protectedattr.Role) bool {
				i := slices.Index(f.roles, role)
				return i >= 0 && one.members[i]
			},
		})
		if len(one.conditions) == 0 {
			continue
		}
		if r.Group == "" && (r.Resource == "bindings" || r.Resource == "pods" && r.Subresource == "binding") {
			// It is merged into a pod that admission does not see: a value that it sets may replace a protected one.
			one.conditions = []protectedattr.Condition{{Description: one.conditions[0].Description, Expression: f.carried()}}
		}
		all = append(all, one)
	}
	return all
}

// carried is true in CEL for an object that has the attribute, with whatever value.
func (f *family) carried() string {
	attributes := "optional.ofNonZeroValue(object).?metadata.?" + f.kind.String() + "s"
	if domain, ok := strings.CutSuffix(f.key, "/*"); ok {
		return fmt.Sprintf("%s.orValue({}).exists(k, k.startsWith(%q))", attributes, domain+"/")
	}
	return fmt.Sprintf("%s[?%q].hasValue()", attributes, f.key)
}

// protection is one policy.
func (c *compiler) protection(f *family, refused refusals, at alike) *admissionv1.ValidatingAdmissionPolicy {
	users, groups := protectedattr.Exempt(&c.in.Protected)
	match := []string{fmt.Sprintf("!(%q in %s)", masters, celGroups), at.where, fmt.Sprintf("!(%s in %s)", celUser, celList(users))}
	if len(groups) > 0 {
		match = append(match, fmt.Sprintf("!%s.exists(g, g in %s)", celGroups, celList(groups)))
	}
	if f.scope != "" {
		match = append(match, fmt.Sprintf(`%s == %q && %s != "/namespaces"`, celPlace, f.scope, celGroup+` + "/" + `+celPlural))
	}
	var variables ways
	for i, r := range f.roles {
		variables.add(fmt.Sprintf("member%d", i), isMember(r))
	}
	variables.add("node", celWritesItself)
	var holds, said []string
	for s, one := range refused {
		var pattern, none []string
		for i, is := range one.members {
			pattern = append(pattern, fmt.Sprintf("variables.member%d == %t", i, is))
		}
		for i, condition := range one.conditions {
			name := fmt.Sprintf("refused%d_%d", s, i)
			variables.add(name, condition.Expression)
			none = append(none, "!variables."+name)
			if s == 0 {
				said = append(said, condition.Description)
			}
		}
		allowed := "(" + strings.Join(none, " && ") + ")"
		if len(pattern) > 0 {
			allowed = "!(" + strings.Join(pattern, " && ") + ") || " + allowed
		}
		holds = append(holds, "("+allowed+")")
	}
	scope := cmp.Or(f.scope, "cluster")
	from := origin{rule: protectionName(&f.protections[0]), role: ruleset.RoleRef{Name: scope + "-" + f.kind.String() + "-" + f.key}, index: -1}
	return c.policyOf(from, at.rules, match, variables, "variables.node || "+strings.Join(holds, " && "), oneLine(strings.Join(said, "; ")))
}

// celWritesItself is true in CEL for a node that writes its own Node or a mirror pod of its own.
const celWritesItself = `"system:nodes" in ` + celGroups + ` && ` + celUser + `.startsWith("system:node:") && ` + celUser + `.size() > 12 && ` + celGroup + ` == "" && object != null && (` +
	celPlural + ` == "nodes" ? (` + celName + ` == "" || ` + celName + ` == request.userInfo.username.substring(12)) && ` +
	`[object, oldObject].all(o, o == null || o.?metadata.?name.orValue("") == request.userInfo.username.substring(12)) : ` +
	celPlural + ` == "pods" && [object, oldObject].all(o, o == null || o.?metadata.?annotations[?"kubernetes.io/config.mirror"].hasValue() && ` +
	`o.?spec.?nodeName.orValue("") == request.userInfo.username.substring(12)))`

// boundTo are the bindings of a role of Policy.
func (c *compiler) boundTo(role ruleset.RoleRef) (all []*bound) {
	for _, b := range c.bounds {
		if b.role == role {
			all = append(all, b)
		}
	}
	return all
}

// grantMembership gives the mark of a role of Policy to those who are bound to it, where they are.
func (c *compiler) grantMembership(r protectedattr.Role) (all []runtime.Object) {
	ref := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: r.Namespace, Name: r.Name}
	for _, b := range c.boundTo(ref) {
		member := *b
		member.role.Name = "member-" + b.role.Name
		all = append(all, c.give(&member, memberRules(r))...)
	}
	return all
}
