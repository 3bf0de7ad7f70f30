package escalation

import (
	"encoding/binary"
	"iter"
	"slices"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
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
	rule    *matching.Rule
	nth     int // of the rule
	pattern *matching.Pattern
}

func newLens(rules []*matching.Rule, patterns func(*matching.Rule) []matching.Pattern) lens {
	l := lens{byRes: map[string][]rulePattern{}, byKind: map[string][]rulePattern{}}
	for n, r := range rules {
		list := patterns(r)
		for i := range list {
			p := rulePattern{r, n, &list[i]}
			switch {
			case p.pattern.Kind != "":
				l.byKind[p.pattern.Kind] = append(l.byKind[p.pattern.Kind], p)
			case p.pattern.AnyRes:
				l.wild = append(l.wild, p)
			default:
				l.byRes[p.pattern.Res] = append(l.byRes[p.pattern.Res], p)
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
func (h *proof) places(w *matching.Rule) (out []*place) {
	seen := map[string]bool{}
	for _, p := range w.Patterns {
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
func (h *proof) placesOf(w *matching.Rule, p matching.Pattern) iter.Seq[place] {
	groups, subs := h.names.groups, h.names.subs
	if !p.AnyGroup {
		groups = []string{p.Group}
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return !p.InGroup(g) || w.Groups != nil && !slices.Contains(w.Groups, g)
	})
	switch p.Mode {
	case matching.SubNone:
		subs = []string{""}
		if w.Verbs.Proxy || w.Verbs.Parent != [matching.Families]matching.VerbBit{} {
			subs = append(subs, connect.Subresources()...) // exec and proxy reach these through the parent
		}
	case matching.SubExact, matching.SubRaw:
		subs = []string{p.Sub}
	}
	return func(yield func(place) bool) {
		for _, g := range groups {
			resources, kinds := []string{p.Res}, []string{p.Kind}
			if p.AnyRes {
				resources = h.names.resources.in(g)
			}
			if p.Kind == "" {
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
	return kind == "" || !h.ix.Kinds().Settled(group, resource, kind)
}

// sight is how all rules see a place. A rule's fit depends on the place through nothing else.
func (h *proof) sight(at *place) string {
	q := matching.Request{Group: at.group, Resource: at.res, Sub: at.sub, RawSub: at.sub, HasSub: at.sub != "", Family: matching.FamilyOf(at.group, at.res, at.sub)}
	q.Kind = at.kind
	codes := map[int]byte{}
	patterns, negations := h.lens.at(at), h.negations.at(at)
	h.budget.steps += len(patterns) + len(negations)
	for _, p := range patterns {
		if code := reaches(p.pattern, &q); code != 0 {
			codes[p.nth] |= code
		}
	}
	for _, p := range negations {
		if codes[p.nth] != 0 && p.pattern.Excludes(&q) {
			codes[p.nth] |= 4
		}
	}
	matched := make([]int, 0, len(codes))
	for n := range codes {
		matched = append(matched, n)
	}
	slices.Sort(matched)
	b := []byte{byte(q.Family)}
	if q.Resource == "pods" && q.Sub == matching.SubEviction {
		b[0] |= 1 << 7 // deny rules see the pod in it
	}
	for _, n := range matched {
		r, code := h.rules[n], codes[n]
		h.budget.steps += len(r.Groups)
		if r.Groups != nil && !slices.Contains(r.Groups, q.Group) {
			code |= 8
		}
		b = append(binary.AppendUvarint(b, uint64(n)), code)
	}
	return string(b)
}

// reaches tells whether the pattern is about the place itself (1) or only, for exec and proxy, about its parent (2).
func reaches(p *matching.Pattern, q *matching.Request) byte {
	if !p.Names(q) {
		return 0
	}
	switch p.Mode {
	case matching.SubNone:
		if !q.HasSub {
			return 1
		}
		if q.Family != matching.FamilyNone {
			return 2
		}
		return 0
	case matching.SubExact, matching.SubRaw:
		if !q.HasSub || p.Sub != q.Sub {
			return 0
		}
	case matching.SubAny:
		if !q.HasSub {
			return 0
		}
	}
	return 1
}
