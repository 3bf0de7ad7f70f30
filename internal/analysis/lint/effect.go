package lint

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
)

// elsewhere stands for every namespace that no object is in.
const elsewhere = "any-other-namespace"

// effects reports roles without subjects, and rules whose removal would not change any decision.
func (c *checker) effects(r role) {
	bindings := c.Index.BindingsOf(r.ref)
	if len(bindings) == 0 {
		if len(r.policy)+len(r.rbac) > 0 && !c.aggregates(r) {
			c.say(Remark{Code: codeUnbound, Severity: Warning, Object: r.object, Path: []any{"metadata", "name"}, Message: fmt.Sprintf("nobody is bound to %s", r.object)})
		}
		return
	}
	namespaces := c.places(bindings)
	for i := range max(len(r.policy), len(r.rbac)) {
		if !slices.ContainsFunc(c.remarks, func(m Remark) bool {
			return m.Object == r.object && len(m.Path) > 1 && m.Path[1] == i && slices.Contains([]string{codeBroken, codeKind, codeVerb, codeNamed, codePaths, codeNever}, m.Code) && m.Severity != Note
		}) {
			c.effect(r, i, namespaces)
		}
	}
}

// aggregates reports whether a cluster role is a part of others, by its labels.
func (c *checker) aggregates(r role) bool {
	for _, o := range c.ClusterRoles {
		if r.ref.Kind == ruleset.ClusterRole && o.Name == r.ref.Name {
			return slices.ContainsFunc(slices.Collect(keys(o.Labels)), func(k string) bool { return strings.HasPrefix(k, "rbac.authorization.k8s.io/aggregate-to") }) || len(o.Labels) > 0 && c.aggregated()
		}
	}
	return false
}

// aggregated reports whether any cluster role collects others by labels.
func (c *checker) aggregated() bool {
	return slices.ContainsFunc(c.ClusterRoles, func(o *rbacv1.ClusterRole) bool { return o.AggregationRule != nil })
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// places are the namespaces in which bindings hold.
func (c *checker) places(bindings []ruleset.BindingRef) (namespaces []string) {
	for _, b := range bindings {
		if b.Kind == ruleset.ClusterRoleBinding || b.Kind == ruleset.PolicyRoleBinding && b.Namespace == c.Index.MasterNamespace() {
			return append(append([]string{""}, c.Namespaces...), elsewhere)
		}
		namespaces = append(namespaces, b.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// change is what became of a rule.
type change struct {
	matched bool   // something
	allowed bool   // something that it matches, to a subject that has it
	denied  string // by this rule
	by      string // this rule allows instead
}

// effect decides everything that a rule matches with it and without it.
func (c *checker) effect(r role, i int, namespaces []string) {
	if r.policy != nil && r.policy[i].Shadowed() {
		return // it is not to have any yet (TR-6)
	}
	without := c.without(r, i)
	if without == nil {
		return
	}
	deny := r.policy != nil && r.policy[i].Deny
	if deny && c.unknownGrants() {
		return
	}
	var seen change
	if c.differs(r, i, without, namespaces, deny, &seen) || c.budget <= 0 {
		return
	}
	remark := Remark{Object: r.object, Path: []any{"rules", i}}
	switch {
	case !seen.matched && !ordinary(r, i): // whatever it is about is not among what is asked here
		return
	case !seen.matched:
		remark.Code, remark.Severity, remark.Message = codeUnreachable, Warning, "the rule matches nothing that is served where it is bound"
	case deny && seen.allowed:
		remark.Code, remark.Severity, remark.Message = codeIdleDeny, Warning, "what the rule denies is allowed anyway, by "+seen.by
	case deny && seen.denied != "":
		remark.Code, remark.Severity, remark.Message = codeIdleDeny, Warning, "what the rule denies is denied without it, by "+seen.denied
	case deny:
		remark.Code, remark.Severity, remark.Message = codeIdleDeny, Warning, "nobody who has the rule is allowed what it denies"
	case seen.allowed:
		remark.Code, remark.Severity, remark.Message = codeRedundant, Note, "what the rule allows is allowed without it, by "+seen.by
	default:
		remark.Code, remark.Severity, remark.Message = codeUnreachable, Warning, "everything that the rule allows is denied by "+seen.denied
	}
	c.say(remark)
}

// ordinary reports whether everything that a rule can match is among the resources and verbs that are asked about.
func ordinary(r role, i int) bool {
	var kinds []string
	if r.policy != nil {
		kinds = r.policy[i].ResourceKinds
	} else {
		kinds = r.rbac[i].Resources
	}
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return strings.Contains(k, "/") })
}

// unknownGrants reports whether there are bindings to roles that the files do not have.
func (c *checker) unknownGrants() bool {
	return slices.ContainsFunc(c.Index.Problems(), func(p ruleset.Problem) bool { return p.Binding != (ruleset.BindingRef{}) })
}

// without is the index with a rule in its place that matches nothing.
func (c *checker) without(r role, i int) *ruleset.Index {
	nothing := rbacv1.PolicyRule{Verbs: []string{"nothing"}, APIGroups: []string{"nothing.invalid"}, Resources: []string{"nothing"}}
	switch r.ref.Kind {
	case ruleset.PolicyRole:
		for _, p := range c.Policies {
			if p.Namespace == r.ref.Namespace && p.Name == policyv1alpha1.PolicyName {
				p = p.DeepCopy()
				p.Roles[r.ref.Name].Rules[i] = policyv1alpha1.PolicyRule{Verbs: nothing.Verbs, ResourceKinds: []string{"nothing.nothing.invalid"}}
				return c.Index.Apply(ruleset.Put(p))
			}
		}
	case ruleset.Role:
		for _, o := range c.Roles {
			if o.Namespace == r.ref.Namespace && o.Name == r.ref.Name {
				o = o.DeepCopy()
				o.Rules[i] = nothing
				return c.Index.Apply(ruleset.Put(o))
			}
		}
	case ruleset.ClusterRole:
		for _, o := range c.ClusterRoles {
			if o.Name == r.ref.Name {
				o = o.DeepCopy()
				o.Rules[i] = nothing
				return c.Index.Apply(ruleset.Put(o))
			}
		}
	}
	return nil
}

// differs reports whether anything that a rule matches is decided in another way without it.
func (c *checker) differs(r role, i int, without *ruleset.Index, namespaces []string, deny bool, seen *change) bool {
	ask := func(attrs authorizer.AttributesRecord) bool {
		var mine, others []ruleset.Subject
		c.budget--
		c.Index.Everyone(attrs, func(h ruleset.Hit) {
			switch {
			case h.Role() == r.ref && h.RuleIndex() == i:
				mine = append(mine, h.Subject())
			case h.Effect() == ruleset.Allows:
				others = append(others, h.Subject())
			}
		})
		c.budget -= len(mine) + len(others)
		seen.matched = seen.matched || len(mine) > 0
		for _, s := range mine {
			if c.matters(attrs, without, whocan.Judged(s), seen) {
				return true
			}
			for _, o := range others { // nobody knows who else is in a group
				if deny && o != s && (o.Group || s.Group) && c.matters(attrs, without, append(whocan.Judged(s), o), &change{}) {
					return true
				}
			}
			if c.budget <= 0 {
				return true
			}
		}
		return c.budget <= 0 || c.ctx.Err() != nil
	}
	names := append([]string{""}, c.names(r, i)...)
	for _, res := range c.Resources {
		for _, verb := range c.Verbs {
			for _, namespace := range namespaces {
				if !res.Namespaced && namespace != "" && res.Resource != questions.Namespaces {
					continue
				}
				for _, name := range names {
					asked := questions.Target{Verb: verb, Resource: res.Resource, Subresource: res.Subresource, Namespace: namespace, Name: name}
					if asked.IsNamespace() && name == "" && namespace != "" {
						asked.Name = namespace // a role in it grants requests for the Namespace object
					}
					if ask(authorizer.AttributesRecord{Verb: verb, APIGroup: res.Group, APIVersion: res.Version, Resource: res.Resource, Subresource: res.Subresource, Namespace: asked.InNamespace(), Name: asked.Name, ResourceRequest: true}) {
						return true
					}
				}
			}
		}
	}
	for _, path := range c.paths(r, i) {
		for _, verb := range append([]string{"post", "put", "head", "options"}, c.Verbs...) {
			if ask(authorizer.AttributesRecord{Verb: verb, Path: path}) {
				return true
			}
		}
	}
	return false
}

// names are those that any rule tells apart, and of a rule with names its own.
func (c *checker) names(r role, i int) []string {
	var own []string
	if r.policy != nil {
		own = r.policy[i].ResourceNames
	} else {
		own = r.rbac[i].ResourceNames
	}
	if len(own) > 0 {
		return own
	}
	return c.Names
}

func (c *checker) paths(r role, i int) (paths []string) {
	var urls []string
	if r.policy != nil {
		urls = r.policy[i].NonResourceURLs
	} else {
		urls = r.rbac[i].NonResourceURLs
	}
	for _, u := range urls {
		paths = append(paths, u, strings.TrimRight(u, "*"))
	}
	return paths
}

// matters reports whether a request by these subjects is decided in another way.
func (c *checker) matters(attrs authorizer.AttributesRecord, without *ruleset.Index, subjects []ruleset.Subject, seen *change) bool {
	c.budget--
	var q ruleset.Query
	q.ResetFor(c.Index, attrs, subjects...)
	before := q.Decide(nil)
	q.ResetFor(without, attrs, subjects...)
	after := q.Decide(nil)
	if before.Certainty != after.Certainty || !slices.EqualFunc(before.Conditions, after.Conditions, same) {
		return true
	}
	switch {
	case before.Certainty == ruleset.Never:
		if after.Deny.Found() {
			seen.denied = ruleNamed(after.Deny)
		}
	default:
		seen.allowed = true
		if after.Allow.Found() {
			seen.by = ruleNamed(after.Allow)
		} else {
			seen.by = ruleNamed(after.Conditions[0])
		}
	}
	return false
}

func same(a, b ruleset.Hit) bool {
	return a.Role() == b.Role() && a.RuleIndex() == b.RuleIndex() && a.Effect() == b.Effect()
}

// ruleNamed is a rule as messages have it.
func ruleNamed(h ruleset.Hit) string {
	return fmt.Sprintf("rule %d of %s", h.RuleIndex(), objectOf(h.Role()))
}
