package lint

import (
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/evasion"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// evasions remarks on deny rules whose subjects can change what the rule looks at.
func (c *checker) evasions(r role) {
	if !slices.ContainsFunc(r.policy, func(rule policyv1alpha1.PolicyRule) bool { return rule.Deny }) {
		return
	}
	var protections []protectedattr.Protection
	for _, g := range c.Guards {
		protections = append(protections, g.Protection)
	}
	subjects := map[string][]ruleset.Subject{}
	var places []string
	c.Index.Members(r.ref, func(namespace string, everywhere bool, s ruleset.Subject) {
		if everywhere {
			namespace = c.Index.MasterNamespace()
		}
		if subjects[namespace] == nil {
			places = append(places, namespace)
		}
		subjects[namespace] = append(subjects[namespace], s)
	})
	slices.Sort(places)
	type mark struct {
		rule int
		evasion.Mark
	}
	seen := map[mark]bool{}
	for _, place := range places {
		slices.SortFunc(subjects[place], ruleset.Subject.Compare)
		for _, f := range evasion.Find(evasion.Input{Index: c.Index, Namespace: place, Rules: r.policy, Subjects: subjects[place], Protections: protections, Fields: c.Fields}) {
			if m := (mark{f.Rule, f.Mark}); !seen[m] {
				seen[m] = true
				remedy := f.Remedy()
				c.say(Remark{Code: codeEvadable, Severity: Warning, Object: r.object, Path: []any{"rules", f.Rule}, Message: f.String(), Do: strings.ToUpper(remedy[:1]) + remedy[1:] + "."})
			}
		}
	}
}
