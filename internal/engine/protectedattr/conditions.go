package protectedattr

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of a condition and of a set of them (CA-1).
const (
	MaxConditions  = 128
	MaxExpression  = 10240
	MaxDescription = 1024
)

// Condition is a protection as an access review shows it: a Deny condition that holds for exactly the writes that Check
// would refuse this caller.
type Condition struct {
	// ID is a label key, unique in what one call returns.
	ID string
	// Description says it in words.
	Description string
	// Expression is CEL over object and oldObject.
	Expression string
}

// Conditions lists the protections that stand between the caller and a write of the request's resource, whatever the
// body will be (PA-8). What the caller may touch anyway is left out. They show what Check does and are never evaluated
// instead of it.
func (ix *Index) Conditions(req *Request) []Condition {
	if ix.Len() == 0 || req.omnipotent() || ix.exempt.identity(req.User, req.Groups) || writesOwnNode(req) {
		return nil
	}
	var all []Condition
	for _, kind := range []Attribute{Label, Annotation} {
		rules := &ix.rules[kind]
		if rules.every != nil {
			for _, l := range []*level{&rules.every.cluster, rules.every.at(req.scope())} {
				all = append(all, l.unreadable(kind, req)...)
			}
		}
		for _, domain := range slices.Sorted(maps.Keys(rules.domains)) {
			for _, l := range []*level{&rules.domains[domain].cluster, rules.domains[domain].at(req.scope())} {
				all = append(all, l.conditions(attribute{kind: kind, key: domain + everyKey, besides: rules.of(domain)}, req)...)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(rules.rules)) {
			for _, l := range []*level{&rules.rules[key].cluster, rules.rules[key].at(req.scope())} {
				all = append(all, l.conditions(attribute{kind: kind, key: key}, req)...)
			}
		}
	}
	return Group(all)
}

// unreadable shows that something may be protected: more than is, and never less.
func (l *level) unreadable(kind Attribute, req *Request) []Condition {
	if l.permits("", placeOf(req, nil), req) {
		return nil
	}
	named := Refusal{Attribute: kind, Key: "*", Value: "*"}
	for _, p := range l.covering("", placeOf(req, nil), req) {
		named.Protections = append(named.Protections, Named{Kind: p.kind(), Name: p.name, Unreadable: true})
	}
	return []Condition{{ID: kind.String() + "-unreadable", Description: named.String(), Expression: "true"}}
}

func writesOwnNode(req *Request) bool {
	node, ok := nodeName(req)
	return ok && req.Group == "" && req.Resource == "nodes" && req.Name == node
}

// attribute is a label or annotation that conditions are about.
type attribute struct {
	kind Attribute
	// key is domain/* for all keys of a domain except those in besides, which have their own conditions.
	key     string
	besides []string
}

// conditions are those of one attribute at one level, each within the limits.
func (l *level) conditions(a attribute, req *Request) []Condition {
	var all []Condition
	for _, part := range l.parts(a, req) {
		all = append(all, Condition{ID: a.kind.String() + "-" + a.key, Description: describe(a, part), Expression: expression(a, part)})
	}
	return all
}

// scoped is what is forbidden in some places: in the object's own metadata, and at sites.
type scoped struct {
	denied
	object bool
	sites  []site
	by     []*protection
}

// parts returns what is forbidden, grouped by places where the same is forbidden, each short enough for an expression.
func (l *level) parts(a attribute, req *Request) (all []scoped) {
	if l == nil {
		return nil
	}
	own := placeOf(req, nil)
	places := []scoped{{denied: l.denied(own, req), object: true, by: l.named(own, req)}}
	for _, s := range sitesOf(req.Group, req.Resource, req.Subresource) {
		at := placeOf(req, &s)
		d := l.denied(at, req)
		if i := slices.IndexFunc(places, func(p scoped) bool { return p.equal(d) }); i >= 0 {
			places[i].sites = append(places[i].sites, s)
			continue
		}
		places = append(places, scoped{denied: d, sites: []site{s}, by: l.named(at, req)})
	}
	for _, p := range places {
		for _, d := range p.split(budget(a, p)) {
			p.denied = d
			all = append(all, p)
		}
	}
	return all
}

// budget is how many bytes of values each list in an expression may have.
func budget(a attribute, p scoped) int {
	const probe, slack = "probe", 16
	f := forbidden{all: true, values: []string{probe}}
	gone := f
	if !p.same() {
		gone = forbidden{values: f.values}
	}
	p.denied = denied{f, gone}
	text := expression(a, p)
	lists := strings.Count(text, celString(probe))
	return (MaxExpression-len(text))/max(lists, 1) - slack
}

// split cuts long lists of forbidden values into parts that each fit an expression; together the parts forbid the same.
// A list of exceptions that is too long is left out, which shows more as forbidden than is forbidden, never less.
func (d denied) split(budget int) (parts []denied) {
	if d.none() {
		return nil
	}
	if d.same() {
		for _, f := range d.set.split(budget) {
			parts = append(parts, denied{f, f})
		}
		return parts
	}
	for _, f := range []*forbidden{&d.set, &d.gone} {
		if len(celList(f.values)) > budget {
			*f = forbidden{all: true}
		}
	}
	return []denied{d}
}

func (f forbidden) split(budget int) []forbidden {
	if f.none() {
		return nil
	}
	if f.all {
		if len(celList(f.values)) > budget {
			f.values = nil
		}
		return []forbidden{f}
	}
	var parts []forbidden
	var now []string
	size := 0
	for _, v := range f.values {
		n := len(celString(v)) + 2
		if n > budget {
			parts = append(parts, forbidden{all: true}) // a value too long to be shown: shown as any value
			continue
		}
		if size+n > budget {
			parts = append(parts, forbidden{values: now})
			now, size = nil, 0
		}
		now, size = append(now, v), size+n
	}
	if len(now) > 0 {
		parts = append(parts, forbidden{values: now})
	}
	return parts
}

// Group brings conditions within the limits of a set by joining neighbours, and turns the given readable IDs into
// unique label keys.
func Group(all []Condition) []Condition {
	per := (len(all) + MaxConditions - 1) / MaxConditions
	groups := pack(all, per)
	if len(groups) > MaxConditions {
		groups = pack(all, len(all))
	}
	if len(groups) > MaxConditions {
		rest := groups[MaxConditions-1:]
		groups = append(groups[:MaxConditions-1:MaxConditions-1], Condition{
			ID:          "more",
			Description: fmt.Sprintf("%d more groups of conditions apply, too many to be shown in one review", len(rest)),
			Expression:  "true",
		})
	}
	for i := range groups {
		groups[i].ID = conditionID(groups[i], i)
	}
	return groups
}

func pack(all []Condition, per int) []Condition {
	const or = " || "
	var groups []Condition
	count := 0
	for _, c := range all {
		if last := len(groups) - 1; last >= 0 && count < per && len(groups[last].Expression)+len(or)+len(c.Expression) <= MaxExpression {
			g := &groups[last]
			if count == 1 {
				g.ID += "-and-more"
			}
			g.Expression += or + c.Expression
			g.Description = cut(g.Description + "; " + c.Description)
			count++
			continue
		}
		c.Description = cut(c.Description)
		groups = append(groups, c)
		count = 1
	}
	return groups
}

// conditionID is policy.proviso.dev/ + something readable + a hash, at most 63 characters after the slash.
func conditionID(c Condition, position int) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '-'
	}, c.ID)
	if len(readable) > 50 {
		readable = readable[:50]
	}
	sum := sha256.Sum256([]byte(strconv.Itoa(position) + c.Expression))
	return "policy.proviso.dev/" + readable + "-" + hex.EncodeToString(sum[:4])
}

// cut shortens a description to its limit, at a rune boundary.
func cut(s string) string {
	const dots = "..."
	if len(s) <= MaxDescription {
		return s
	}
	return strings.ToValidUTF8(s[:MaxDescription-len(dots)], "") + dots
}
