package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// CompileRule compiles the where, when and attributeRestrictions of a rule. It is called once per rule that has any of
// them, when the role appears or changes. An error quarantines only the rule: an allow rule grants nothing, a deny rule
// denies without its condition.
type CompileRule func(role RoleRef, index int, rule *policyv1alpha1.PolicyRule) (matching.Condition, error)

// compiler turns roles into tables.
type compiler struct {
	seed  maphash.Seed
	kinds *matching.Kinds
	rule  CompileRule
	// limits quarantine roles that are too large, or their conditions.
	limits Limits
	// future makes names also match resources that will have such a kind, see kindPattern.kind.
	future bool
	// skip omits rules of Policy; nil omits none.
	skip func(RoleRef, int) bool
	// part says which rules of Policy are compiled.
	part Part
	// alike are the RBAC rules that were compiled already; nil if only few are compiled.
	alike alikeRules
}

// HasCondition reports whether a rule has any condition that the object has to meet.
func HasCondition(r *policyv1alpha1.PolicyRule) bool {
	return r.Where != "" || r.When != "" || r.AttributeRestrictions != nil
}

// policyRole compiles a role of Policy. It reuses conditions that old has, too.
func (c *compiler) policyRole(ref RoleRef, src *roleSource, old *role) *role {
	rules := src.policy
	out := &role{Definition: Definition{Ref: ref, Policy: rules, Rules: make([]*matching.Rule, len(rules))}, over: src.over}
	counted := c.part.of(rules)
	whole, conditions := c.limits.Role(counted), cmp.Or(src.over, c.limits.Conditions(counted))
	names := map[string]bool{}
	twin, reported := ref != ref.plain(), false
	for i := range rules {
		if twin && !rules[i].Deny || !c.part.has(&rules[i]) || c.skip != nil && c.skip(ref, i) {
			continue
		}
		over := whole
		if over == nil && HasCondition(&rules[i]) {
			over = conditions
		}
		out.asksTime = out.asksTime || mayAskTime(rules[i].Where) || mayAskTime(rules[i].When)
		err := c.policyRule(out, i, names, over, old)
		switch {
		case err == nil || twin: // the role itself reports it
		case over != nil && reported: // of a limit, once
		default:
			out.problems = append(out.problems, Problem{Role: ref, Rule: i, Deny: rules[i].Deny, Err: err})
			reported = reported || over != nil
		}
	}
	for n := range names {
		out.names = append(out.names, n)
	}
	slices.Sort(out.names)
	c.finish(out)
	return out
}

// policyRule adds one rule to the role. On an error an allow rule is left out and a deny rule matches more: a rule that
// cannot be read, or is too large, never gives access.
func (c *compiler) policyRule(out *role, i int, names map[string]bool, over error, old *role) error {
	src := &out.Policy[i]
	r := &matching.Rule{Index: i, Deny: src.Deny, Names: sortedNames(src.ResourceNames)}
	if src.Where != "" {
		r.Aims = NamedConnections(src)
	}
	_, r.Soft = src.Unrecognized[policyv1alpha1.UnreadableField]
	r.Soft = r.Soft || out.Ref.isSoft()
	var errs []error
	if over != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, over))
	}
	if len(src.Unrecognized) > 0 {
		errs = append(errs, fmt.Errorf("rule %d has fields that are not known: remove them", i))
	}
	if !src.Enforcement.Known() {
		errs = append(errs, fmt.Errorf("rule %d: enforcement %q is not known: give Enforce, Warn or Shadow", i, src.Enforcement))
	}
	positive, negative, err := splitVerbs(src.Verbs)
	if err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
		if src.Deny {
			positive = append(positive, matching.VerbAll)
		}
	}
	r.Verbs = matching.PolicyVerbs(positive, negative, src.Deny)
	if r.Groups, err = policyGroups(src.APIGroups); err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
	}
	patterns, err := c.policyKinds(src, r, names)
	if err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
	}
	if len(errs) == 0 && !out.Ref.isSoft() {
		if r.Cond = old.condition(i, src); r.Cond == nil {
			r.Cond, err = c.condition(out.Ref.plain(), i, src)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
		}
	}
	if len(errs) > 0 {
		r.Cond = nil
		if !src.Deny {
			return errors.Join(errs...)
		}
	}
	r.URLs, r.Prefixes = matching.SplitURLs(src.NonResourceURLs)
	c.add(out, r, patterns)
	return errors.Join(errs...)
}

// condition returns the compiled condition of a rule of the role, if the rule is exactly this one; nil otherwise.
func (r *role) condition(i int, src *policyv1alpha1.PolicyRule) matching.Condition {
	if r == nil || i >= len(r.Rules) || r.Rules[i] == nil || !HasCondition(src) {
		return nil
	}
	if was := &r.Policy[i]; was != src && !reflect.DeepEqual(was, src) {
		return nil
	}
	return r.Rules[i].Cond
}

func (c *compiler) condition(ref RoleRef, i int, src *policyv1alpha1.PolicyRule) (matching.Condition, error) {
	if !HasCondition(src) {
		return nil, nil
	}
	if a := src.AttributeRestrictions; a != nil && len(a.Unrecognized) > 0 {
		return nil, errors.New("attributeRestrictions has restrictions that are not known: remove them")
	}
	if c.rule == nil {
		return nil, errors.New("conditions cannot be compiled here")
	}
	cond, err := c.rule(ref, i, src)
	if err == nil && cond == nil {
		return nil, errors.New("the condition compiled to nothing")
	}
	return cond, err
}

// policyKinds compiles resourceKinds. What a name means depends on whether the entry gives access or takes it away.
func (c *compiler) policyKinds(src *policyv1alpha1.PolicyRule, r *matching.Rule, names map[string]bool) ([]matching.Pattern, error) {
	var positive []matching.Pattern
	var errs []error
	wild := len(src.ResourceKinds) > 0
	for _, entry := range src.ResourceKinds {
		body, negated := strings.CutPrefix(entry, "-")
		wild = wild && negated
		p, err := matching.ParseKind(body)
		if err != nil {
			errs = append(errs, err)
			if src.Deny && !negated {
				positive = append(positive, everyKind())
			}
			continue
		}
		if !p.AnyRes {
			names[p.Res] = true
		}
		expanded, _ := c.expand(p, negated == src.Deny, r.Groups)
		if negated {
			r.Negs = append(r.Negs, expanded...)
		} else {
			positive = append(positive, expanded...)
		}
	}
	if len(src.ResourceKinds) == 0 && len(src.NonResourceURLs) == 0 {
		errs = append(errs, errors.New("neither resourceKinds nor nonResourceURLs is given"))
		wild = src.Deny
	}
	if wild {
		positive = append(positive, everyKind())
	}
	return positive, errors.Join(errs...)
}

// expand turns one entry into patterns on plurals. A name without a group has the groups of the rule, if it has any.
func (c *compiler) expand(p matching.Pattern, gives bool, groups []string) (patterns []matching.Pattern, served bool) {
	if !gives || !p.AnyGroup || p.AnyRes || groups == nil {
		return c.kinds.Expand(p, gives, c.future)
	}
	for _, g := range groups {
		q := p
		q.Group, q.AnyGroup = g, false
		more, found := c.kinds.Expand(q, true, c.future)
		patterns, served = append(patterns, more...), served || found
	}
	return patterns, served
}

func everyKind() matching.Pattern {
	return matching.Pattern{AnyRes: true, AnyGroup: true, Mode: matching.SubAll}
}

// splitVerbs separates the verbs from the negated ones. A list of only negations means all verbs except these.
func splitVerbs(verbs []string) (positive, negative []string, err error) {
	for _, v := range verbs {
		body, negated := strings.CutPrefix(v, "-")
		switch {
		case body == "" || strings.HasPrefix(body, "-"):
			err = fmt.Errorf("verb %q is not a verb", v)
		case negated:
			negative = append(negative, body)
		default:
			positive = append(positive, body)
		}
	}
	if len(verbs) == 0 {
		return nil, nil, errors.New("no verbs are given")
	}
	if len(positive) == 0 && err == nil {
		positive = []string{matching.VerbAll}
	}
	return positive, negative, err
}

// policyGroups compiles apiGroups: nil means all groups, as does omitting them.
func policyGroups(groups []string) ([]string, error) {
	out := make([]string, 0, len(groups))
	for _, g := range groups {
		switch {
		case g == "*":
			return nil, nil
		case strings.HasPrefix(g, "-"):
			return nil, fmt.Errorf("API group %q: groups cannot be negated, negate *.%s in resourceKinds", g, g[1:])
		}
		out = append(out, strings.ToLower(g))
	}
	return noneAsNil(out), nil
}

// rbacRole compiles a Role or ClusterRole.
func (c *compiler) rbacRole(ref RoleRef, rules []rbacv1.PolicyRule) *role {
	if c.alike != nil {
		rules = slices.Clone(rules)
	}
	out := &role{Definition: Definition{Ref: ref, RBAC: rules, Rules: make([]*matching.Rule, len(rules))}}
	for i := range rules {
		r := c.alike.rule(i, &rules[i])
		c.add(out, r, r.Patterns)
	}
	c.finish(out)
	return out
}

// rbacRule compiles one rule of RBAC.
func rbacRule(i int, src *rbacv1.PolicyRule) *matching.Rule {
	r := &matching.Rule{Index: i, RBAC: true, Verbs: matching.RBACVerbs(src.Verbs), Names: sortedNames(src.ResourceNames)}
	r.URLs, r.Prefixes = matching.SplitURLs(src.NonResourceURLs)
	if !slices.Contains(src.APIGroups, "*") {
		r.Groups = src.APIGroups
	}
	if len(src.APIGroups) > 0 { // an RBAC rule without a group matches no resource
		r.Patterns = make([]matching.Pattern, 0, len(src.Resources))
		for _, res := range src.Resources {
			r.Patterns = append(r.Patterns, rbacKinds(res)...)
		}
	}
	return r
}

// rbacKinds compiles one entry of RBAC's resources, which is compared literally, except for * and */subresource.
func rbacKinds(entry string) []matching.Pattern {
	if entry == "*" {
		return []matching.Pattern{everyKind()}
	}
	res, sub, hasSub := strings.Cut(entry, "/")
	p := matching.Pattern{Res: res, AnyGroup: true}
	if hasSub {
		p.Sub, p.Mode = sub, matching.SubExact
	}
	if res == "*" {
		return []matching.Pattern{p, {Sub: sub, Mode: matching.SubRaw, AnyRes: true, AnyGroup: true}}
	}
	return []matching.Pattern{p}
}

func (c *compiler) add(out *role, r *matching.Rule, patterns []matching.Pattern) {
	t := &out.allow
	if r.Deny {
		t = &out.deny
	}
	r.Patterns = patterns
	for i := range patterns {
		if p := &patterns[i]; p.AnyRes {
			cell := matching.Cell{Pattern: p, Rule: r}
			if p.Kind != "" {
				cell.Hash = matching.HashOf(c.seed, p.Kind)
			}
			t.Wild = append(t.Wild, cell)
		} else {
			t.Cells = append(t.Cells, matching.Cell{Pattern: p, Hash: maphash.String(c.seed, p.Res), Rule: r})
		}
	}
	if len(r.URLs) > 0 {
		t.URLs = append(t.URLs, r)
	}
	out.Rules[r.Index] = r
}

func (c *compiler) finish(out *role) {
	out.allow.Sort()
	out.deny.Sort()
	// A rule that yields must not hide one that does not.
	slices.SortStableFunc(out.deny.Wild, func(a, b matching.Cell) int { return cmp.Compare(yielding(a.Rule), yielding(b.Rule)) })
	slices.SortStableFunc(out.deny.URLs, func(a, b *matching.Rule) int { return cmp.Compare(yielding(a), yielding(b)) })
	if cap(out.allow.Cells) > len(out.allow.Cells)*5/4 {
		out.allow.Cells = slices.Clone(out.allow.Cells)
	}
}

func yielding(r *matching.Rule) int {
	if r.Soft {
		return 1
	}
	return 0
}

func sortedNames(names []string) []string {
	return noneAsNil(slices.Sorted(slices.Values(names)))
}

func noneAsNil(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}
