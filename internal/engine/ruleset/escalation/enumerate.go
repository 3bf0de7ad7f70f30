package escalation

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Limits of one escalation check, together well under a second. Beyond them the grant is refused: a check that takes
// minutes is a way to keep the server busy.
const (
	maxSteps    = 30_000_000 // comparisons of a name with a pattern
	maxPlaces   = 500_000    // resources looked at
	maxRequests = 200_000    // requests decided
)

// budget counts down what is left of the limits.
type budget struct{ steps, places, requests int }

func (b *budget) spent() bool {
	return b.steps > maxSteps || b.places > maxPlaces || b.requests > maxRequests
}

// check looks at every request that a wanted rule allows and notes those that the writer does not hold. Requests that
// no rule tells apart are looked at once: each part of a request is reduced to one representative per way in which the
// rules see it. It returns false when the limits are reached.
func (h *proof) check(w *matching.Rule, out *NotHeld) bool {
	verbs := h.verbs.of(w)
	if len(w.URLs) > 0 && (h.grant.Namespace == "" || w.RBAC) && !h.checkURLs(w, verbs, out) {
		return false
	}
	if len(w.Patterns) == 0 {
		return true
	}
	names := h.objectNames.of(w)
	for _, at := range h.places(w) {
		for _, verb := range verbs {
			if h.checkNames(w, at, verb, names, out); h.budget.spent() {
				return false
			}
		}
	}
	return !h.budget.spent()
}

// checkNames is check for one verb at one place.
func (h *proof) checkNames(w *matching.Rule, at *place, verb string, names []string, out *NotHeld) {
	anyName := ""
	for _, name := range names {
		a := authorizer.AttributesRecord{Verb: verb, Namespace: h.grant.Namespace, APIGroup: at.group, Resource: at.res,
			Subresource: at.sub, Name: name, ResourceRequest: true}
		h.budget.requests++
		if !h.allows(w, a, at) {
			continue
		}
		why := h.why(w, a, at)
		if name == "" {
			anyName = why
		}
		if why != "" && (name != other || why != anyName) { // what holds for no name holds for any
			out.add(Gap{Rule: w.Index, What: describe(a, at.future(w)), Why: why})
		}
	}
}

// checkURLs is check for the non-resource paths of a rule.
func (h *proof) checkURLs(w *matching.Rule, verbs []string, out *NotHeld) bool {
	for _, path := range h.names.urls {
		for _, verb := range verbs {
			h.budget.requests++
			if h.budget.steps += h.names.paths; h.budget.spent() {
				return false
			}
			a := authorizer.AttributesRecord{Verb: verb, Path: path, Namespace: h.grant.Namespace}
			var q matching.Request
			q.Set(h.seed, a)
			if w.CheckURL(&q) == matching.Misses {
				continue
			}
			if why := h.why(w, a, &place{}); why != "" {
				out.add(Gap{Rule: w.Index, What: describe(a, ""), Why: why})
			}
		}
	}
	return true
}

// allows tells whether a wanted rule allows a request at a place, under its condition if it has one.
func (h *proof) allows(w *matching.Rule, a authorizer.AttributesRecord, at *place) bool {
	var q matching.Request
	q.Set(h.seed, a)
	q.Kind = at.kind
	for _, p := range h.lens.at(at) {
		if p.rule == w {
			c := matching.Cell{Pattern: p.pattern, Rule: w}
			if h.budget.steps++; c.Names(&q) && c.Check(&q) != matching.Misses {
				return true
			}
		}
	}
	return false
}

// sights are names of one part of a request, and how all rules see each.
type sights struct {
	names []string
	sight []string
	sees  func(r *matching.Rule, name string) byte // 0: the rule does not match it
}

func newSights(rules []*matching.Rule, names []string, sees func(r *matching.Rule, name string) byte) sights {
	s := sights{names: names, sees: sees}
	for _, name := range names {
		b := make([]byte, 0, len(rules))
		for _, r := range rules {
			b = append(b, sees(r, name))
		}
		s.sight = append(s.sight, string(b))
	}
	return s
}

// of lists the names that a rule matches, one for each way in which the rules see them.
func (s *sights) of(w *matching.Rule) (out []string) {
	seen := map[string]bool{}
	for i, name := range s.names {
		if !seen[s.sight[i]] && s.sees(w, name) != 0 {
			seen[s.sight[i]] = true
			out = append(out, name)
		}
	}
	return out
}

// seesVerb is how a rule sees a verb, on each family of subresources. Where a create is an eviction, a deny of delete
// sees it too.
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

// seesName is how a rule sees the name of an object. No name is a way of its own, and so is a name that a deny rule
// sees through on a proxy.
func seesName(r *matching.Rule, name string) byte {
	switch {
	case r.Names != nil && !matching.Contains(r.Names, name):
		if target := connect.Name(connect.Proxy, name); r.Deny && name != "" && r.NamesTarget(target) {
			return 4
		}
		return 0
	case name == "":
		return 2
	}
	return 1
}

// future words, for a resource that will have a kind if it is ever served, what a rule would have to say to leave it
// out.
func (p *place) future(w *matching.Rule) string {
	if p.kind == "" {
		return ""
	}
	unnamed := p.res
	if slices.ContainsFunc(w.Patterns, func(q matching.Pattern) bool { return q.Kind == "" && q.Res == p.res }) {
		unnamed = p.kind
	}
	text := " (should its kind become " + p.kind
	if unnamed != other {
		text += "; -" + unnamed + " in the rule leaves that out"
	}
	return text + ")"
}

// describe words a request for people.
func describe(a authorizer.AttributesRecord, future string) string {
	if !a.ResourceRequest {
		return show(a.Verb, "verb") + " " + show(a.Path, "path")
	}
	var b strings.Builder
	b.WriteString(show(a.Verb, "verb") + " " + show(a.Resource, "resource"))
	if a.Subresource != "" {
		b.WriteString("/" + show(a.Subresource, "subresource"))
	}
	b.WriteString(future)
	switch a.APIGroup {
	case "":
	case other:
		b.WriteString(" in any other API group")
	default:
		b.WriteString(" in " + a.APIGroup)
	}
	switch a.Name {
	case "":
	case other:
		b.WriteString(" of any other name")
	default:
		b.WriteString(" named " + a.Name)
	}
	return b.String()
}
