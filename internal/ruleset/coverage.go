package ruleset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// RuleCoverage says what the kinds of one rule mean at the moment.
type RuleCoverage struct {
	// Resources are the served resources that the rule's kinds cover, themselves or with a subresource, in order.
	Resources []schema.GroupResource
	// Unserved are the names that no served resource has, as written. They match once it is served.
	Unserved []string
	// Guarded are names without a group that only resources of guarded groups have, which such a name does not reach.
	Guarded []string
	// Wildcard tells that the rule also covers kinds that do not exist yet.
	Wildcard bool
}

// Coverage says what the kinds of a rule cover with what is served. Verbs, names and conditions are not looked at.
func Coverage(r *policyv1alpha1.PolicyRule, kinds *Kinds) RuleCoverage {
	var out RuleCoverage
	c := compiler{kinds: kinds}
	ru := &rule{}
	ru.groups, _ = policyGroups(r.APIGroups)
	patterns, _ := c.policyKinds(&policyv1alpha1.PolicyRule{ResourceKinds: r.ResourceKinds, Deny: r.Deny, NonResourceURLs: []string{"/"}}, ru, map[string]bool{})
	for _, p := range patterns {
		out.Wildcard = out.Wildcard || p.anyRes
	}
	out.Resources = coveredBy(kinds, ru, patterns)
	for _, entry := range r.ResourceKinds {
		name, negated := strings.CutPrefix(entry, "-")
		p, err := parseKind(name)
		if err != nil {
			continue
		}
		if _, served := c.expand(p, negated == r.Deny, ru.groups); served || slices.Contains(out.Unserved, name) {
			continue
		}
		out.Unserved = append(out.Unserved, name)
		if p.anyGroup && ru.groups == nil && len(kinds.lookup(&p)) > 0 {
			out.Guarded = append(out.Guarded, name)
		}
	}
	return out
}

// covered lists the served resources, without subresources, that a compiled rule covers as resources of their own.
func (ix *Index) covered(ru *rule) []schema.GroupResource {
	var patterns []kindPattern
	for _, p := range ru.patterns {
		if p.mode == subNone || p.mode == subAll {
			patterns = append(patterns, p)
		}
	}
	return coveredBy(ix.kinds, ru, patterns)
}

func coveredBy(kinds *Kinds, ru *rule, patterns []kindPattern) []schema.GroupResource {
	if kinds == nil {
		return nil
	}
	var out []schema.GroupResource
	for _, gr := range kinds.all {
		if ru.groups != nil && !slices.Contains(ru.groups, gr.Group) {
			continue
		}
		q := request{group: gr.Group, resource: gr.Resource}
		match := slices.ContainsFunc(patterns, func(p kindPattern) bool {
			return p.names(&q)
		})
		if match && !slices.ContainsFunc(ru.negs, func(p kindPattern) bool { return p.excludes(&q) }) {
			out = append(out, gr)
		}
	}
	return out
}
