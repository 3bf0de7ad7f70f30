package escalation

import (
	"encoding/binary"
	"slices"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// view is how some rules see the verbs and the names of objects that matter (see universe): one for each way in which
// the rules distinguish them. Other rules do not matter where only these rules can match.
type view struct{ verbs, names []string }

// verbsOf returns the verbs that a rule matches on any subresource.
func (h *proof) verbsOf(w *matching.Rule, v *view) []string {
	if h.budget.charge(len(v.verbs) * (1 + len(w.Verbs.Named) + len(w.Verbs.Negated))); h.budget.spent() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.verbs), func(verb string) bool { return seesVerb(w, verb) == 0 })
}

// namesOf returns the names that a rule matches.
func (v *view) namesOf(w *matching.Rule) []string {
	if w.Names == nil {
		return v.names
	}
	return slices.DeleteFunc(slices.Clone(v.names), func(name string) bool { return !matching.Contains(w.Names, name) })
}

// viewOf returns the view of the rules with these numbers.
func (h *proof) viewOf(numbers []int) *view {
	return &view{verbs: h.verbsSeen(numbers), names: h.namesSeen(numbers)}
}

// sights record how rules see names, rule by rule.
type sights map[string][]byte

func (s sights) note(name string, rule int, code byte) {
	s[name] = append(binary.AppendUvarint(s[name], uint64(rule)), code)
}

// distinct lists one name for each key, the first in the order given.
func distinct(names []string, key func(name string) string) (out []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if k := key(name); !seen[k] {
			seen[k] = true
			out = append(out, name)
		}
	}
	return out
}

// verbsSeen lists the verbs. A rule sees a verb that it does not mention like the stand-in for its sort, so each rule
// is only asked about the builtin verbs and those that it mentions.
func (h *proof) verbsSeen(numbers []int) []string {
	mentioned := set{}
	mentioned.add(builtinVerbs...)
	for _, n := range numbers {
		if !h.allow[n] {
			mentioned.add(h.rules[n].Verbs.Named...)
		}
		mentioned.add(h.rules[n].Verbs.Negated...)
	}
	delete(mentioned, "*") // in a request it is a question about everything
	s := sights{}
	for _, n := range numbers {
		v := &h.rules[n].Verbs
		mentions := len(v.Named) + len(v.Negated)
		if h.budget.charge(mentions * (mentions + len(builtinVerbs))); h.budget.spent() {
			return nil
		}
	}
	h.budget.charge(len(mentioned) + len(numbers)*len(builtinVerbs))
	for _, verb := range builtinVerbs {
		for _, n := range numbers {
			if code := seesVerb(h.rules[n], verb); code != 0 {
				s.note(verb, n, code)
			}
		}
	}
	own := sights{} // where a rule sees a verb differently from its stand-in
	for _, n := range numbers {
		r := h.rules[n]
		for _, list := range [][]string{r.Verbs.Named, r.Verbs.Negated} {
			for _, verb := range list {
				if !mentioned[verb] || slices.Contains(builtinVerbs, verb) {
					continue
				}
				if code := seesVerb(r, verb); code != seesVerb(r, standIn(verb)) {
					own.note(verb, n, code)
				}
			}
		}
	}
	return distinct(mentioned.sorted(), func(verb string) string {
		base := s[verb]
		if !slices.Contains(builtinVerbs, verb) {
			base = s[standIn(verb)]
		}
		return string(binary.AppendUvarint(nil, uint64(len(base)))) + string(base) + string(own[verb])
	})
}

// standIn returns the verb that stands for all unmentioned verbs of the same sort.
func standIn(verb string) string {
	switch matching.SpecialOf(verb) {
	case matching.SpecialOf(matching.VerbImpersonate):
		return matching.VerbImpersonate + other
	case matching.SpecialOf(matching.VerbGranular):
		return matching.VerbGranular + other
	case matching.SpecialOf(matching.VerbReveal):
		return matching.VerbReveal + other
	}
	return other
}

// seesVerb encodes how a rule sees a verb, on each family of subresources. Where a create is an eviction, a deny of
// delete sees it, too.
func seesVerb(r *matching.Rule, verb string) (code byte) {
	q := matching.Request{Verb: verb, Bit: matching.BitOf(verb), Special: matching.SpecialOf(verb), ResourceRequest: true}
	for q.Family = matching.FamilyNone; q.Family < matching.Families; q.Family++ {
		code <<= 2
		if r.Verbs.Matches(&q) {
			code |= 1
		}
		if q.Family != matching.FamilyNone && r.Verbs.MatchesParent(&q) {
			code |= 2
		}
	}
	if r.Deny && q.Bit == matching.BitCreate && r.Verbs.Masks[matching.FamilyNone]&matching.BitDelete != 0 {
		code |= 1 << 6
	}
	return code
}

// namesSeen lists the names of objects. The empty name is seen in its own way, and so is a name that a deny rule
// recognises in a proxy target. All names that no rule mentions are seen alike.
func (h *proof) namesSeen(numbers []int) []string {
	mentioned, s := set{}, sights{}
	for _, n := range numbers {
		if !h.allow[n] {
			mentioned.add(h.rules[n].Names...)
		}
	}
	mentioned.add("", other)
	for _, n := range numbers {
		r := h.rules[n]
		h.budget.charge(len(r.Names))
		for _, name := range r.Names {
			if mentioned[name] {
				s.note(name, n, 1)
			}
		}
	}
	names := mentioned.sorted()
	byTarget := map[string][]string{}
	for _, name := range names {
		if target := connect.Name(connect.Proxy, name); name != "" {
			byTarget[target] = append(byTarget[target], name)
		}
	}
	for _, n := range numbers {
		r := h.rules[n]
		if !r.Deny {
			continue
		}
		targets := set{}
		for _, name := range r.Names {
			targets.add(name, connect.Name(connect.Proxy, name))
		}
		for target := range targets {
			h.budget.charge(len(byTarget[target]))
			for _, name := range byTarget[target] {
				if !matching.Contains(r.Names, name) {
					s.note(name, n, 4)
				}
			}
		}
	}
	s[""] = append(s[""], 0xff)
	return distinct(names, func(name string) string { return string(s[name]) })
}
