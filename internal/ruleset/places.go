package ruleset

import (
	"encoding/binary"
	"iter"
	"slices"

	"proviso.dev/proviso/internal/connection"
)

// place is a resource with or without a subresource. kind is one that rules mention and that the resource would have if
// it were served.
type place struct{ group, res, sub, kind string }

// lens finds the patterns that could be about a place.
type lens struct {
	byRes, byKind map[string][]rulePattern
	wild          []rulePattern
}

type rulePattern struct {
	rule    *rule
	nth     int // of the rule
	pattern *kindPattern
}

func newLens(rules []*rule, patterns func(*rule) []kindPattern) lens {
	l := lens{byRes: map[string][]rulePattern{}, byKind: map[string][]rulePattern{}}
	for n, r := range rules {
		list := patterns(r)
		for i := range list {
			p := rulePattern{r, n, &list[i]}
			switch {
			case p.pattern.kind != "":
				l.byKind[p.pattern.kind] = append(l.byKind[p.pattern.kind], p)
			case p.pattern.anyRes:
				l.wild = append(l.wild, p)
			default:
				l.byRes[p.pattern.res] = append(l.byRes[p.pattern.res], p)
			}
		}
	}
	return l
}

func (l *lens) at(p *place) []rulePattern {
	if p.kind == "" {
		return slices.Concat(l.byRes[p.res], l.wild)
	}
	return slices.Concat(l.byRes[p.res], l.wild, l.byKind[p.kind])
}

// places lists the resources of a wanted rule, one for each way in which the rules see them.
func (h *proof) places(w *rule) (out []*place) {
	seen := map[string]bool{}
	for _, p := range w.patterns {
		for at := range h.placesOf(w, p) {
			if h.budget.places++; h.budget.spent() {
				return nil
			}
			if sight := h.sight(&at); !seen[sight] {
				seen[sight] = true
				out = append(out, &at)
			}
		}
	}
	return out
}

// placesOf enumerates what one pattern of a wanted rule could be about.
func (h *proof) placesOf(w *rule, p kindPattern) iter.Seq[place] {
	groups, subs := h.names.groups, h.names.subs
	if !p.anyGroup {
		groups = []string{p.group}
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return !p.inGroup(g) || w.groups != nil && !slices.Contains(w.groups, g)
	})
	switch p.mode {
	case subNone:
		subs = []string{""}
		if w.verbs.proxy || w.verbs.parent != [families]verbBit{} {
			subs = append(subs, connection.Subresources()...) // exec and proxy reach these through the parent
		}
	case subExact, subRaw:
		subs = []string{p.sub}
	}
	return func(yield func(place) bool) {
		for _, g := range groups {
			resources, kinds := []string{p.res}, []string{p.kind}
			if p.anyRes {
				resources = h.names.resources.in(g)
			}
			if p.kind == "" {
				kinds = h.names.kinds.in(g)
			}
			for _, r := range resources {
				for _, k := range kinds {
					if !h.possible(g, r, k) {
						continue
					}
					for _, s := range subs {
						if !yield(place{g, r, s, k}) {
							return
						}
					}
				}
			}
		}
	}
}

// possible tells whether a resource could have a kind one day.
func (h *proof) possible(group, resource, kind string) bool {
	if resource == "*" {
		return false // RBAC's word for a review about everything
	}
	return kind == "" || !h.ix.kinds.settled(group, resource, kind)
}

// sight is how all rules see a place. A rule's fit depends on the place through nothing else.
func (h *proof) sight(at *place) string {
	q := request{group: at.group, resource: at.res, sub: at.sub, rawSub: at.sub, hasSub: at.sub != "", family: familyOf(at.group, at.res, at.sub)}
	q.kind = at.kind
	codes := map[int]byte{}
	patterns, negations := h.lens.at(at), h.negations.at(at)
	h.budget.steps += len(patterns) + len(negations)
	for _, p := range patterns {
		if code := p.pattern.reaches(&q); code != 0 {
			codes[p.nth] |= code
		}
	}
	for _, p := range negations {
		if codes[p.nth] != 0 && p.pattern.excludes(&q) {
			codes[p.nth] |= 4
		}
	}
	matched := make([]int, 0, len(codes))
	for n := range codes {
		matched = append(matched, n)
	}
	slices.Sort(matched)
	b := []byte{byte(q.family)}
	if q.resource == "pods" && q.sub == subEviction {
		b[0] |= 1 << 7 // deny rules see the pod in it
	}
	for _, n := range matched {
		r, code := h.rules[n], codes[n]
		h.budget.steps += len(r.groups)
		if r.groups != nil && !slices.Contains(r.groups, q.group) {
			code |= 8
		}
		b = append(binary.AppendUvarint(b, uint64(n)), code)
	}
	return string(b)
}

// reaches tells whether the pattern is about the place itself (1) or only, for exec and proxy, about its parent (2).
func (p *kindPattern) reaches(q *request) byte {
	if !p.names(q) {
		return 0
	}
	switch p.mode {
	case subNone:
		if !q.hasSub {
			return 1
		}
		if q.family != familyNone {
			return 2
		}
		return 0
	case subExact, subRaw:
		if !q.hasSub || p.sub != q.sub {
			return 0
		}
	case subAny:
		if !q.hasSub {
			return 0
		}
	}
	return 1
}
