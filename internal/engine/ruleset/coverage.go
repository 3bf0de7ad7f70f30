package ruleset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// RuleCoverage is what the kinds of one rule currently cover.
type RuleCoverage struct {
	// Resources are the served resources that the rule's kinds cover, themselves or with a subresource, in order.
	Resources []schema.GroupResource
	// Unserved are the names that no served resource has, as written. They match once such a resource is served.
	Unserved []string
	// Guarded are names without a group that only resources of guarded groups have. A name without a group does not
	// reach those.
	Guarded []string
	// Wildcard is true if the rule also covers kinds that do not exist yet.
	Wildcard bool
}

// Coverage returns what the kinds of a rule cover among the served resources. It ignores verbs, names and conditions.
func Coverage(r *policyv1alpha1.PolicyRule, kinds *matching.Kinds) RuleCoverage {
	var out RuleCoverage
	c := compiler{kinds: kinds}
	ru := &matching.Rule{}
	ru.Groups, _ = policyGroups(r.APIGroups)
	patterns, _ := c.policyKinds(&policyv1alpha1.PolicyRule{ResourceKinds: r.ResourceKinds, Deny: r.Deny, NonResourceURLs: []string{"/"}}, ru, map[string]bool{})
	for _, p := range patterns {
		out.Wildcard = out.Wildcard || p.AnyRes
	}
	out.Resources = coveredBy(kinds, ru, patterns)
	for _, entry := range r.ResourceKinds {
		name, negated := strings.CutPrefix(entry, "-")
		p, err := matching.ParseKind(name)
		if err != nil {
			continue
		}
		if _, served := c.expand(p, negated == r.Deny, ru.Groups); served || slices.Contains(out.Unserved, name) {
			continue
		}
		out.Unserved = append(out.Unserved, name)
		if p.AnyGroup && ru.Groups == nil && len(kinds.Lookup(&p)) > 0 {
			out.Guarded = append(out.Guarded, name)
		}
	}
	return out
}

// covered lists the served resources, without subresources, that a compiled rule covers.
func (ix *Index) covered(ru *matching.Rule) []schema.GroupResource {
	var patterns []matching.Pattern
	for _, p := range ru.Patterns {
		if p.Mode == matching.SubNone || p.Mode == matching.SubAll {
			patterns = append(patterns, p)
		}
	}
	return coveredBy(ix.kinds, ru, patterns)
}

func coveredBy(kinds *matching.Kinds, ru *matching.Rule, patterns []matching.Pattern) []schema.GroupResource {
	if kinds == nil {
		return nil
	}
	var out []schema.GroupResource
	for _, gr := range kinds.Resources() {
		if ru.Groups != nil && !slices.Contains(ru.Groups, gr.Group) {
			continue
		}
		q := matching.Request{Group: gr.Group, Resource: gr.Resource}
		match := slices.ContainsFunc(patterns, func(p matching.Pattern) bool {
			return p.Names(&q)
		})
		if match && !slices.ContainsFunc(ru.Negs, func(p matching.Pattern) bool { return p.Excludes(&q) }) {
			out = append(out, gr)
		}
	}
	return out
}
