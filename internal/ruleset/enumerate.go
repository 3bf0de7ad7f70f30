package ruleset

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// maxSteps limits one escalation check to well under a second.
const maxSteps = 20_000_000

// check looks at every request that a wanted rule allows and notes those that the writer does not hold. Requests that no
// rule tells apart are looked at once: each part of a request is reduced to one representative per way in which the rules
// see it.
func (h *holder) check(w *rule, out *NotHeld) error {
	if len(w.urls) > 0 && (h.grant.Namespace == "" || w.rbac) {
		h.checkURLs(w, out)
	}
	if len(w.patterns) == 0 {
		return nil
	}
	places, err := h.places(w)
	if err != nil {
		return err
	}
	verbs := h.verbs(w)
	names := h.objectNames(w)
	if len(places)*len(verbs)*len(names)*len(h.rules) > maxSteps {
		return &NotHeld{Reason: fmt.Sprintf("rule %d and the rules of the writer are too many to compare: split the rule", w.index)}
	}
	cells := cellsOf(w)
	for i := range places {
		p := &places[i]
		for _, verb := range verbs {
			anyName := ""
			for _, name := range names {
				a := authorizer.AttributesRecord{Verb: verb, Namespace: h.grant.Namespace, APIGroup: p.group, Resource: p.res,
					Subresource: p.sub, Name: name, ResourceRequest: true}
				if !allows(cells, h.ix, a, p) {
					continue
				}
				why := h.why(w, a, p)
				if name == "" {
					anyName = why
				}
				if why != "" && (name != other || why != anyName) { // what holds for no name holds for any
					out.add(Gap{Rule: w.index, What: describe(a, p), Why: why})
				}
			}
		}
	}
	return nil
}

// place is a resource with or without a subresource. kind is one that rules mention and that the resource would have if it
// were served.
type place struct {
	group, res, sub, kind string
	served                string // entries for which no plural is guessed any more, one per line
}

// future tells the query about the future that the place is in.
func (p *place) future(q *Query) {
	q.kind = p.kind
	if p.served != "" {
		q.served = strings.Split(p.served, "\n")
	}
}

// places lists the resources of a wanted rule, one for each way in which the rules see them.
func (h *holder) places(w *rule) ([]place, error) {
	var out []place
	seen := map[string]bool{}
	done := map[place]bool{}
	steps := 0
	for _, p := range w.patterns {
		for at := range h.placesOf(p) {
			if done[at] {
				continue
			}
			done[at] = true
			if steps += len(h.rules); steps > maxSteps {
				return nil, &NotHeld{Reason: fmt.Sprintf("rule %d covers too many resources to compare: split the rule", w.index)}
			}
			if sight := h.sight(at); !seen[sight] {
				seen[sight] = true
				out = append(out, at)
			}
		}
	}
	return out, nil
}

// placesOf enumerates what one pattern of a wanted rule could be about.
func (h *holder) placesOf(p kindPattern) iter.Seq[place] {
	groups, resources, subs, kinds := h.names.groups, h.names.resources, h.names.subs, h.names.kinds
	if !p.anyGroup {
		groups = []string{p.group}
	}
	if !p.anyRes {
		resources = []string{p.res}
	}
	if p.kind != "" {
		kinds = []string{p.kind}
	}
	switch p.mode {
	case subNone:
		subs = append([]string{""}, connectSubs...) // exec and proxy reach these through the parent
	case subExact, subRaw:
		subs = []string{p.sub}
	}
	return func(yield func(place) bool) {
		for _, g := range groups {
			for _, r := range resources {
				for _, k := range kinds {
					if !h.possible(g, r, k) {
						continue
					}
					for _, s := range subs {
						for _, served := range h.names.guesses[r] {
							if !yield(place{g, r, s, k, served}) {
								return
							}
						}
						if !yield(place{group: g, res: r, sub: s, kind: k}) {
							return
						}
					}
				}
			}
		}
	}
}

// possible tells whether a resource could have a kind one day: not if it is served, and has one, and not if another
// resource of its group has that kind, since kinds are unique in a group.
func (h *holder) possible(group, resource, kind string) bool {
	if resource == "*" {
		return false // RBAC's word for a review about everything
	}
	return kind == "" || len(h.ix.kinds.pluralIn(resource, group, false)) == 0 && len(h.ix.kinds.kindIn(kind, group, false)) == 0
}

// sight is how all rules see a place. A rule's verdict depends on the place through nothing else.
func (h *holder) sight(at place) string {
	q := Query{group: at.group, resource: at.res, sub: at.sub, rawSub: at.sub, hasSub: at.sub != "", family: familyOf(at.group, at.res, at.sub)}
	at.future(&q)
	b := make([]byte, 0, len(h.rules)+1)
	b = append(b, byte(q.family))
	for _, r := range h.rules {
		var code byte
		for i := range r.patterns {
			p := &r.patterns[i]
			if !p.names(&q) {
				continue
			}
			switch p.mode {
			case subNone:
				if !q.hasSub {
					code |= 1
				} else if q.family != familyNone {
					code |= 2
				}
			case subExact, subRaw:
				if q.hasSub && p.sub == q.sub {
					code |= 1
				}
			case subAny:
				if q.hasSub {
					code |= 1
				}
			case subAll:
				code |= 1
			}
		}
		for i := range r.negs {
			if r.negs[i].excludes(&q) {
				code |= 4
			}
		}
		if r.groups != nil && !slices.Contains(r.groups, q.group) {
			code |= 8
		}
		b = append(b, code)
	}
	return string(b)
}

// verbs lists the verbs of a wanted rule, one for each way in which the rules see them.
func (h *holder) verbs(w *rule) (out []string) {
	seen := map[string]bool{}
	for _, verb := range h.names.verbs {
		q := Query{verb: verb, bit: bitOf(verb), special: bitOf(verb) == 0 && isSpecial(verb)}
		look := func(r *rule) (code byte) {
			for q.family = familyNone; q.family < families; q.family++ {
				code <<= 2
				if r.verbs.matches(&q) {
					code |= 1
				}
				if q.family != familyNone && r.verbs.matchesParent(&q) {
					code |= 2
				}
			}
			return code
		}
		if look(w) == 0 {
			continue
		}
		b := make([]byte, 0, len(h.rules))
		for _, r := range h.rules {
			b = append(b, look(r))
		}
		if !seen[string(b)] {
			seen[string(b)] = true
			out = append(out, verb)
		}
	}
	return out
}

// objectNames lists the names of a wanted rule, one for each way in which the rules see them. No name is a way of its own.
func (h *holder) objectNames(w *rule) (out []string) {
	seen := map[string]bool{}
	for _, name := range h.names.names {
		if w.names != nil && !contains(w.names, name) {
			continue
		}
		b := make([]byte, 0, len(h.rules)+1)
		b = append(b, min(byte(len(name)), 1))
		for _, r := range h.rules {
			if r.names == nil || contains(r.names, name) {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
		if !seen[string(b)] {
			seen[string(b)] = true
			out = append(out, name)
		}
	}
	return out
}

// checkURLs is check for the non-resource paths of a rule.
func (h *holder) checkURLs(w *rule, out *NotHeld) {
	for _, path := range h.names.urls {
		for _, verb := range h.verbs(w) {
			a := authorizer.AttributesRecord{Verb: verb, Path: path, Namespace: h.grant.Namespace}
			var q Query
			q.setRequest(h.ix, a)
			if w.checkURL(&q) == misses {
				continue
			}
			if why := h.why(w, a, &place{}); why != "" {
				out.add(Gap{Rule: w.index, What: describe(a, &place{}), Why: why})
			}
		}
	}
}

// cellsOf makes a table of one rule.
func cellsOf(w *rule) []cell {
	cells := make([]cell, 0, len(w.patterns))
	for _, p := range w.patterns {
		cells = append(cells, cell{kindPattern: p, rule: w})
	}
	return cells
}

// allows tells whether a rule could allow the request.
func allows(cells []cell, ix *Index, a authorizer.AttributesRecord, at *place) bool {
	var q Query
	q.setRequest(ix, a)
	at.future(&q)
	for i := range cells {
		if c := &cells[i]; c.names(&q) && c.check(&q) != misses {
			return true
		}
	}
	return false
}

// describe words a request for people.
func describe(a authorizer.AttributesRecord, at *place) string {
	if !a.ResourceRequest {
		return show(a.Verb, "verb") + " " + show(a.Path, "path")
	}
	var b strings.Builder
	b.WriteString(show(a.Verb, "verb") + " " + show(a.Resource, "resource"))
	if a.Subresource != "" {
		b.WriteString("/" + show(a.Subresource, "subresource"))
	}
	if at.kind != "" {
		b.WriteString(" (should its kind become " + at.kind + "; a plural or an API group in the rule rules that out)")
	}
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
