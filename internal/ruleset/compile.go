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
)

// CompileRule compiles the where, when and attributeRestrictions of a rule. It is called once per rule that has any of
// them, when the role appears or changes. An error quarantines the rule alone: if it allows it grants nothing, if it
// denies it denies without its condition.
type CompileRule func(role RoleRef, index int, rule *policyv1alpha1.PolicyRule) (Condition, error)

// compiler turns roles into tables.
type compiler struct {
	seed  maphash.Seed
	kinds *Kinds
	rule  CompileRule
	// limits quarantine roles that are too large, or their conditions.
	limits Limits
	// future makes names also match resources that will have such a kind, see kindPattern.kind.
	future bool
	// skip leaves rules of Policy out; nil leaves out none.
	skip func(RoleRef, int) bool
}

// HasCondition tells whether a rule has any condition that the object has to meet.
func HasCondition(r *policyv1alpha1.PolicyRule) bool {
	return r.Where != "" || r.When != "" || r.AttributeRestrictions != nil
}

// policyRole compiles a role of Policy. Conditions that old has too are taken from it.
func (c *compiler) policyRole(ref RoleRef, src *roleSource, old *role) *role {
	rules := src.policy
	out := &role{ref: ref, policy: rules, over: src.over, compiled: make([]*rule, len(rules))}
	whole, conditions := c.limits.Role(rules), cmp.Or(src.over, c.limits.Conditions(rules))
	names := map[string]bool{}
	twin, reported := ref != ref.plain(), false
	for i := range rules {
		if twin && !rules[i].Deny || c.skip != nil && c.skip(ref, i) {
			continue
		}
		over := whole
		if over == nil && HasCondition(&rules[i]) {
			over = conditions
		}
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

// policyRule adds one rule to the role. On an error an allow rule is left out and a deny rule matches more: what cannot
// be understood, or is too much, never gives access.
func (c *compiler) policyRule(out *role, i int, names map[string]bool, over error, old *role) error {
	src := &out.policy[i]
	r := &rule{index: i, deny: src.Deny, names: sortedNames(src.ResourceNames)}
	_, r.soft = src.Unrecognized[policyv1alpha1.UnreadableField]
	r.soft = r.soft || out.ref.isSoft()
	var errs []error
	if over != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, over))
	}
	if len(src.Unrecognized) > 0 {
		errs = append(errs, fmt.Errorf("rule %d has fields that are not known: remove them", i))
	}
	positive, negative, err := splitVerbs(src.Verbs)
	if err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
		if src.Deny {
			positive = append(positive, verbAll)
		}
	}
	r.verbs = policyVerbs(positive, negative, src.Deny)
	if r.groups, err = policyGroups(src.APIGroups); err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
	}
	patterns, err := c.policyKinds(src, r, names)
	if err != nil {
		errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
	}
	if len(errs) == 0 && !out.ref.isSoft() {
		if r.cond = old.condition(i, src); r.cond == nil {
			r.cond, err = c.condition(out.ref.plain(), i, src)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
		}
	}
	if len(errs) > 0 {
		r.cond = nil
		if !src.Deny {
			return errors.Join(errs...)
		}
	}
	r.urls, r.prefixes = splitURLs(src.NonResourceURLs)
	c.add(out, r, patterns)
	return errors.Join(errs...)
}

// condition is the compiled condition of a rule of the role, if it is exactly this one; nil otherwise.
func (r *role) condition(i int, src *policyv1alpha1.PolicyRule) Condition {
	if r == nil || i >= len(r.compiled) || r.compiled[i] == nil || !HasCondition(src) {
		return nil
	}
	if was := &r.policy[i]; was != src && !reflect.DeepEqual(was, src) {
		return nil
	}
	return r.compiled[i].cond
}

func (c *compiler) condition(ref RoleRef, i int, src *policyv1alpha1.PolicyRule) (Condition, error) {
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

// policyKinds compiles resourceKinds. What a name means depends on whether it gives access or takes it away.
func (c *compiler) policyKinds(src *policyv1alpha1.PolicyRule, r *rule, names map[string]bool) ([]kindPattern, error) {
	var positive []kindPattern
	var errs []error
	wild := len(src.ResourceKinds) > 0
	for _, entry := range src.ResourceKinds {
		body, negated := strings.CutPrefix(entry, "-")
		wild = wild && negated
		p, err := parseKind(body)
		if err != nil {
			errs = append(errs, err)
			if src.Deny && !negated {
				positive = append(positive, everyKind())
			}
			continue
		}
		if !p.anyRes {
			names[p.res] = true
		}
		expanded, _ := c.expand(p, negated == src.Deny, r.groups)
		if negated {
			r.negs = append(r.negs, expanded...)
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

// expand turns one entry into patterns on plurals. The groups of the rule, if it has any, are those of a name without
// one.
func (c *compiler) expand(p kindPattern, gives bool, groups []string) (patterns []kindPattern, served bool) {
	if !gives || !p.anyGroup || p.anyRes || groups == nil {
		return c.kinds.expand(p, gives, c.future)
	}
	for _, g := range groups {
		q := p
		q.group, q.anyGroup = g, false
		more, found := c.kinds.expand(q, true, c.future)
		patterns, served = append(patterns, more...), served || found
	}
	return patterns, served
}

func everyKind() kindPattern { return kindPattern{anyRes: true, anyGroup: true, mode: subAll} }

// splitVerbs separates the verbs from the negated ones. A list of only negations means all but these.
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
		positive = []string{verbAll}
	}
	return positive, negative, err
}

// policyGroups compiles apiGroups: nil is all of them, which is also what leaving them out means.
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
	out := &role{ref: ref, rbac: rules, compiled: make([]*rule, len(rules))}
	for i := range rules {
		src := &rules[i]
		r := &rule{index: i, rbac: true, verbs: rbacVerbs(src.Verbs), names: sortedNames(src.ResourceNames)}
		r.urls, r.prefixes = splitURLs(src.NonResourceURLs)
		var patterns []kindPattern
		if !slices.Contains(src.APIGroups, "*") {
			r.groups = src.APIGroups
		}
		if len(src.APIGroups) > 0 { // without a group an RBAC rule matches no resource
			for _, res := range src.Resources {
				patterns = append(patterns, rbacKinds(res)...)
			}
		}
		c.add(out, r, patterns)
	}
	c.finish(out)
	return out
}

// rbacKinds compiles one entry of RBAC's resources, which is compared literally but for * and */subresource.
func rbacKinds(entry string) []kindPattern {
	if entry == "*" {
		return []kindPattern{everyKind()}
	}
	res, sub, hasSub := strings.Cut(entry, "/")
	p := kindPattern{res: res, anyGroup: true}
	if hasSub {
		p.sub, p.mode = sub, subExact
	}
	if res == "*" {
		return []kindPattern{p, {sub: sub, mode: subRaw, anyRes: true, anyGroup: true}}
	}
	return []kindPattern{p}
}

func (c *compiler) add(out *role, r *rule, patterns []kindPattern) {
	t := &out.allow
	if r.deny {
		t = &out.deny
	}
	r.patterns = patterns
	for _, p := range patterns {
		if p.anyRes {
			t.wild = append(t.wild, cell{kindPattern: p, rule: r})
		} else {
			t.cells = append(t.cells, cell{kindPattern: p, hash: maphash.String(c.seed, p.res), rule: r})
		}
	}
	if len(r.urls) > 0 {
		t.urls = append(t.urls, r)
	}
	out.compiled[r.index] = r
}

func (c *compiler) finish(out *role) {
	out.allow.sort()
	out.deny.sort()
	// A rule that yields hides none that does not.
	slices.SortStableFunc(out.deny.wild, func(a, b cell) int { return cmp.Compare(yielding(a.rule), yielding(b.rule)) })
	slices.SortStableFunc(out.deny.urls, func(a, b *rule) int { return cmp.Compare(yielding(a), yielding(b)) })
	out.keys = roleKeys(out)
}

func yielding(r *rule) int {
	if r.soft {
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
