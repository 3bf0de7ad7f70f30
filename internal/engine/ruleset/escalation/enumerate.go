package escalation

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// check checks every request that a wanted rule allows and records those that the writer does not hold. Requests that
// no rule distinguishes are checked once: each part of a request is reduced to one representative per way in which the
// rules see it. It returns false when the limit is reached.
func (h *proof) check(w *matching.Rule, out *NotHeld) bool {
	if len(w.URLs) > 0 && (h.grant.Namespace == "" || w.RBAC) && !h.checkURLs(w, out) {
		return false
	}
	for _, at := range h.places(w) {
		mine := h.patternsAt(w, at)
		if len(mine) == 0 {
			continue
		}
		seen := h.viewAt(at)
		names := seen.namesOf(w)
		h.budget.charge(len(seen.names))
		for _, verb := range h.verbsOf(w, seen) {
			if h.checkNames(w, at, verb, names, mine, out); h.budget.spent() {
				return false
			}
		}
	}
	return !h.budget.spent()
}

// checkNames is check for one verb at one place, where the rule has these patterns.
func (h *proof) checkNames(w *matching.Rule, at *place, verb string, names []string, mine []*matching.Pattern, out *NotHeld) {
	anyName := ""
	for _, name := range names {
		if h.budget.spent() {
			return
		}
		a := authorizer.AttributesRecord{Verb: verb, Namespace: h.grant.Namespace, APIGroup: at.group, Resource: at.res,
			Subresource: at.sub, Name: name, ResourceRequest: true}
		if !h.allows(w, a, at, mine) {
			continue
		}
		why := h.why(w, h.holdingOf(at, a), a)
		if name == "" {
			anyName = why
		}
		if why != "" && (name != other || why != anyName) { // what is refused for every name is reported once
			out.add(Gap{Rule: w.Index, What: describe(a, at.future(w)), Why: why})
		}
	}
}

// checkURLs is check for the non-resource paths of a rule.
func (h *proof) checkURLs(w *matching.Rule, out *NotHeld) bool {
	verbs := h.verbsOf(w, h.pathVerbs)
	for _, path := range h.names.urls {
		for _, verb := range verbs {
			if h.budget.charge(perRequest + len(w.URLs)); h.budget.spent() {
				return false
			}
			a := authorizer.AttributesRecord{Verb: verb, Path: path, Namespace: h.grant.Namespace}
			var q matching.Request
			q.Set(h.seed, a)
			if w.CheckURL(&q) == matching.Misses {
				continue
			}
			if why := h.why(w, h.holdingOf(nil, a), a); why != "" {
				out.add(Gap{Rule: w.Index, What: describe(a, ""), Why: why})
			}
		}
	}
	return true
}

// allows reports whether a wanted rule allows a request at a place, under its condition if it has one.
func (h *proof) allows(w *matching.Rule, a authorizer.AttributesRecord, at *place, mine []*matching.Pattern) bool {
	var q matching.Request
	q.Set(h.seed, a)
	q.Kind = at.kind
	h.budget.charge(len(mine))
	for _, p := range mine {
		c := matching.Cell{Pattern: p, Rule: w}
		if c.Names(&q) && c.Check(&q) != matching.Misses {
			return true
		}
	}
	return false
}

// future describes, for a resource that would have a kind if it is ever served, what a rule would have to say to
// exclude it.
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

// describe describes a request for people.
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
