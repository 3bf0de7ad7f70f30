package suggest

import (
	"fmt"
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

// replay decides every use with the suggestion in place of the rights.
func (s *suggester) replay(after *ruleset.Index, out *Result) {
	who := without(s.Who, mastersGroup)
	for _, u := range s.Uses {
		before, now := s.Index.Decide(u.attributes(s.Who)), after.Decide(u.attributes(who))
		if s.masters() {
			before = ruleset.Standing{Certainty: ruleset.Always}
		}
		has := func(verb string) bool { return s.stillHolds(after, u.with(verb)) }
		switch {
		case before.Certainty == ruleset.Never && !s.hasFields(u):
		case slices.ContainsFunc(s.Checked[u], func(verb string) bool { return !has(verb) }), !s.stillLifts(after, u):
			out.Broken = append(out.Broken, u)
		case before.Certainty != ruleset.Always && s.hasFields(u) && !has(fieldsVerb):
			out.Broken = append(out.Broken, u)
		case before.Certainty == ruleset.Never:
		case now.Certainty == ruleset.Always:
		case verbs.Updates(u.Verb) && s.byField[placeOf(u)] && s.stillWrites(after, u):
		case now.Certainty == ruleset.Never, !sameConditions(before, now, s.wheresOf(u)):
			out.Broken = append(out.Broken, u)
		}
	}
}

// stillHolds reports whether a right is held as it was, or without its conditions.
func (s *suggester) stillHolds(after *ruleset.Index, u Use) bool {
	before, now := s.Index.Decide(u.attributes(s.Who)), after.Decide(u.attributes(without(s.Who, mastersGroup)))
	return now.Certainty == ruleset.Always ||
		before.Certainty == ruleset.Sometimes && !s.masters() && now.Certainty == ruleset.Sometimes && sameConditions(before, now, nil)
}

// sameConditions reports whether the walk through the conditions allows everything that it allowed before: for every
// allow there is one of the same condition, or of none, that no other deny stands before. A condition that holds for
// all that is known is as good as none.
func sameConditions(before, now ruleset.Standing, holding []string) bool {
	had, have := allowsOf(before), allowsOf(now)
	return !slices.ContainsFunc(had, func(a allowance) bool {
		return !slices.ContainsFunc(have, func(b allowance) bool {
			same := b.condition == "" || b.condition == a.condition || a.condition == "" && slices.Contains(holding, b.condition)
			return same && !slices.ContainsFunc(b.denies, func(d string) bool { return !slices.Contains(a.denies, d) })
		})
	})
}

// allowance is an allow on the walk, with the denies that stand before it.
type allowance struct {
	condition string
	denies    []string
}

func allowsOf(v ruleset.Standing) (all []allowance) {
	var denies []string
	for _, h := range v.Conditions {
		text := "names only"
		if r := h.PolicyRule(); r != nil {
			text = conditionText(r) + fmt.Sprint(h.Names())
		}
		if h.Effect() == ruleset.Denies {
			denies = append(denies, text)
			continue
		}
		all = append(all, allowance{text, slices.Clone(denies)})
	}
	if v.Allow.Found() && !v.Deny.Found() {
		all = append(all, allowance{"", denies})
	}
	return all
}

func conditionText(r *policyv1alpha1.PolicyRule) string {
	return fmt.Sprintf("%q %q %q %v", r.Where, r.When, r.APIVersion, r.AttributeRestrictions)
}
