package suggest

import (
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/escalation"
)

// lift notes the verbs that let the subject hand out what it does not hold. A writer of roles and bindings needs them,
// or has to hold everything that is handed out, which the suggestion does not keep.
func (s *suggester) lift(u Use, out *Result) {
	all := s.Lifts[u]
	if len(all) == 0 {
		return
	}
	lifted := false
	for _, l := range all {
		if s.lifts(s.Index, l) {
			s.note(l, rulePlace{}, nil)
			lifted = lifted || l.Verb != denyVerb && (l.Name == "" || len(all) <= maxKnownLifts)
		}
	}
	if !lifted && !s.masters() {
		out.HandsOut = append(out.HandsOut, u)
	}
}

const (
	// denyVerb is needed beside the others by writers of deny rules.
	denyVerb = "deny"
	// maxKnownLifts is how many verbs there are if it is known which role is meant.
	maxKnownLifts = 2
)

// lifts reports whether a verb is held, and means as much in a suggestion, which names it. By its name it also lifts
// what denies forbid, which * does not.
func (s *suggester) lifts(ix *ruleset.Index, l Use) bool {
	attrs := l.attributes(s.Who)
	if s.masters() && ix == s.Index {
		return true
	}
	if ix.Decide(attrs).Certainty != ruleset.Always {
		return false
	}
	return ix.Names(attrs) || !escalation.Reaches(ix, escalation.Grant{User: s.Who, Namespace: l.Namespace})
}

// stillLifts reports whether every verb that lifted something still does.
func (s *suggester) stillLifts(after *ruleset.Index, u Use) bool {
	return !slices.ContainsFunc(s.Lifts[u], func(l Use) bool {
		return s.lifts(s.Index, l) && after.Decide(l.attributes(without(s.Who, mastersGroup))).Certainty != ruleset.Always
	})
}
