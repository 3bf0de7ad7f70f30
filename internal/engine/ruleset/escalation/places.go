package escalation

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// place is a resource with or without a subresource. kind is a kind that rules mention and that the resource would have
// if it were served.
type place struct {
	group, res, sub, kind string
	// sight encodes how all rules see it, and live are the numbers of those that can match a request for it.
	sight string
	live  []int
}

// lens finds the patterns that could match a place.
type lens struct {
	byRes, byKind map[string][]rulePattern
	wild          []rulePattern
	kinds         int // patterns by kind
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
				l.byKind[p.pattern.Kind], l.kinds = append(l.byKind[p.pattern.Kind], p), l.kinds+1
			case p.pattern.AnyRes:
				l.wild = append(l.wild, p)
			default:
				l.byRes[p.pattern.Res] = append(l.byRes[p.pattern.Res], p)
			}
		}
	}
	return l
}

// at visits the patterns that could match a place.
func (l *lens) at(p *place) iter.Seq[rulePattern] {
	lists := [3][]rulePattern{l.byRes[p.res], l.wild}
	if p.kind != "" {
		lists[2] = l.byKind[p.kind]
	}
	return func(yield func(rulePattern) bool) {
		for _, list := range lists {
			for _, rp := range list {
				if !yield(rp) {
					return
				}
			}
		}
	}
}

// size is how many patterns at visits.
func (l *lens) size(p *place) int {
	n := len(l.byRes[p.res]) + len(l.wild)
	if p.kind != "" {
		n += len(l.byKind[p.kind])
	}
	return n
}

// places lists the resources of a wanted rule, one for each way in which the rules see them.
func (h *proof) places(w *matching.Rule) (out []*place) {
	seen := map[*place]bool{}
	for i := range w.Patterns {
		for _, at := range h.placesBy(w, &w.Patterns[i]) {
			if !seen[at] {
				seen[at] = true
				out = append(out, at)
			}
		}
		if h.budget.charge(1); h.budget.spent() {
			return nil
		}
	}
	return out
}

// placesBy is places for one pattern. Rules often have equal patterns and differ in their conditions.
func (h *proof) placesBy(w *matching.Rule, p *matching.Pattern) []*place {
	key := fmt.Sprintf("%q %q %q %q %d %t %t %p %q %t", p.Group, p.Res, p.Kind, p.Sub, p.Mode, p.AnyRes, p.AnyGroup, p.NotIn, w.Groups, reachesThrough(w))
	if found, ok := h.byPattern[key]; ok {
		return found
	}
	var out []*place
	seen := map[*place]bool{}
	for at := range h.placesOf(w, *p) {
		if h.budget.spent() {
			break
		}
		h.look(&at)
		first := h.bySight[at.sight]
		if first == nil {
			first = &at
			h.bySight[at.sight] = first
			h.budget.charge(perSight)
		}
		if !seen[first] {
			seen[first] = true
			out = append(out, first)
		}
	}
	h.byPattern[key] = out
	return out
}

// reachesThrough reports whether a rule can reach connect subresources by naming their parents.
func reachesThrough(w *matching.Rule) bool {
	return w.Verbs.Proxy || w.Verbs.Parent != [matching.Families]matching.VerbBit{}
}

// placesOf enumerates the places that one pattern of a wanted rule could match.
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
		if reachesThrough(w) {
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
					if h.budget.charge(1); !h.possible(g, r, k) {
						continue
					}
					for _, s := range subs {
						if !yield(place{group: g, res: r, sub: s, kind: k}) {
							return
						}
					}
				}
			}
		}
	}
}

// possible reports whether a resource could have a kind one day.
func (h *proof) possible(group, resource, kind string) bool {
	if resource == "*" {
		return false // in RBAC, a review about everything
	}
	return kind == "" || !h.ix.Kinds().Settled(group, resource, kind)
}

// What sights encode of a rule at a place, in addition to the result of reaches.
const (
	negated    = 4
	otherGroup = 8
	aimed      = 16 // its where is about the target of the connection
)

// look records how all rules see a place. A rule's fit depends on the place only through that. Rules that do not see it
// cannot match a request for it, except for connect subresources and evictions, where rules also see something else.
func (h *proof) look(at *place) {
	q := matching.Request{Group: at.group, Resource: at.res, Sub: at.sub, RawSub: at.sub, HasSub: at.sub != "", Family: matching.FamilyOf(at.group, at.res, at.sub)}
	q.Kind = at.kind
	h.budget.charge(perPlace + h.lens.size(at) + h.negations.size(at))
	codes, matched := h.codes, h.matched[:0]
	for p := range h.lens.at(at) {
		if code := reaches(p.pattern, &q); code != 0 {
			if codes[p.nth] == 0 {
				matched = append(matched, p.nth)
			}
			codes[p.nth] |= code
		}
	}
	for p := range h.negations.at(at) {
		if codes[p.nth] != 0 && codes[p.nth]&negated == 0 && p.pattern.Excludes(&q) {
			codes[p.nth] |= negated
		}
	}
	slices.Sort(matched)
	b := []byte{byte(q.Family)}
	evicts := q.Resource == "pods" && q.Sub == matching.SubEviction
	if evicts {
		b[0] |= 1 << 7 // deny rules see the pod in it
	}
	for _, n := range matched {
		r, code := h.rules[n], codes[n]
		h.budget.charge(len(r.Groups))
		if r.Groups != nil && !slices.Contains(r.Groups, q.Group) {
			code |= otherGroup
		}
		if r.Aims.Has(q.Group, q.Resource, q.Sub) {
			code |= aimed
		}
		if code&(negated|otherGroup) == 0 {
			at.live = append(at.live, n)
		}
		b = append(binary.AppendUvarint(b, uint64(n)), code)
		codes[n] = 0
	}
	if evicts || q.Family != matching.FamilyNone {
		at.live = h.all
	}
	at.sight, h.matched = string(b), matched
}

// viewAt returns how the rules that can match at a place see verbs and names.
func (h *proof) viewAt(at *place) *view {
	key := make([]byte, 0, 2*len(at.live))
	for _, n := range at.live {
		key = binary.AppendUvarint(key, uint64(n))
	}
	v, ok := h.views[string(key)]
	if !ok {
		v = h.viewOf(at.live)
		h.views[string(key)] = v
	}
	h.budget.charge(len(at.live))
	return v
}

// patternsAt returns the patterns of a wanted rule that could match a place; none if the rule cannot match there.
func (h *proof) patternsAt(w *matching.Rule, at *place) (mine []*matching.Pattern) {
	if _, live := slices.BinarySearch(at.live, h.number[w]); !live {
		return nil
	}
	if size := h.lens.size(at); size < len(w.Patterns) {
		h.budget.charge(size)
		for p := range h.lens.at(at) {
			if p.rule == w {
				mine = append(mine, p.pattern)
			}
		}
		return mine
	}
	h.budget.charge(len(w.Patterns))
	for i := range w.Patterns {
		if p := &w.Patterns[i]; p.AnyRes || p.Res == at.res || p.Kind != "" && p.Kind == at.kind {
			mine = append(mine, p)
		}
	}
	return mine
}

// reaches reports whether the pattern is about the place itself (1) or only, for exec and proxy, about its parent (2).
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
