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

// Condition is a protection as an access review shows it: a Deny condition that holds for exactly those writes that
// Check would refuse this caller.
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
// in its place.
func (ix *Index) Conditions(req *Request) []Condition {
	if ix.Len() == 0 || req.omnipotent() || ix.exempt.identity(req.User, req.Groups) || writesOwnNode(req) {
		return nil
	}
	var all []Condition
	for _, kind := range []Attribute{Label, Annotation} {
		if every := ix.rules[kind].every; every != nil {
			for _, l := range []*level{&every.cluster, every.at(req.scope())} {
				all = append(all, l.unreadable(kind, req)...)
			}
		}
		rules := ix.rules[kind].rules
		for _, key := range slices.Sorted(maps.Keys(rules)) {
			for _, l := range []*level{&rules[key].cluster, rules[key].at(req.scope())} {
				all = append(all, l.conditions(kind, key, req)...)
			}
		}
	}
	return Group(all)
}

// unreadable shows that something may be protected: more than is, and never less.
func (l *level) unreadable(kind Attribute, req *Request) []Condition {
	if l.permits("", false, req) {
		return nil
	}
	named := Refusal{Attribute: kind, Key: "*", Value: "*"}
	for _, p := range l.covering("", false) {
		named.Protections = append(named.Protections, Named{Kind: p.kind(), Name: p.name, Unreadable: true})
	}
	return []Condition{{ID: kind.String() + "-unreadable", Description: named.String(), Expression: "true"}}
}

func writesOwnNode(req *Request) bool {
	node, ok := nodeName(req)
	return ok && req.Group == "" && req.Resource == "nodes" && req.Name == node
}

// conditions are those of one attribute at one level, each within the limits.
func (l *level) conditions(kind Attribute, key string, req *Request) []Condition {
	object, templates := l.forbidden(false, req), l.forbidden(true, req)
	sites := sitesOf(req.Group, req.Resource, req.Subresource)
	if len(sites) == 0 {
		templates = forbidden{}
	}
	if object.none() && templates.none() {
		return nil
	}
	var all []Condition
	for _, part := range split(object, templates, budget(kind, key, sites)) {
		all = append(all, Condition{
			ID:          kind.String() + "-" + key,
			Description: describe(kind, key, part, l),
			Expression:  expression(kind, key, part, sites),
		})
	}
	return all
}

// scoped is what is forbidden in the object's own metadata and in its templates.
type scoped struct{ object, templates forbidden }

// budget is how many bytes of values each list in an expression may have.
func budget(kind Attribute, key string, sites []site) int {
	const probe, slack = "probe", 16
	f := forbidden{all: true, values: []string{probe}}
	text := expression(kind, key, scoped{f, f}, sites)
	lists := strings.Count(text, celString(probe))
	return (MaxExpression-len(text))/max(lists, 1) - slack
}

// split cuts long lists of forbidden values into parts that fit an expression each; together the parts forbid the same.
// A list of exceptions that is too long is left out, which shows more as forbidden than is, and never less.
func split(object, templates forbidden, budget int) []scoped {
	var parts []scoped
	if object.equal(templates) {
		for _, f := range object.split(budget) {
			parts = append(parts, scoped{f, f})
		}
		return parts
	}
	for _, f := range object.split(budget) {
		parts = append(parts, scoped{object: f})
	}
	for _, f := range templates.split(budget) {
		parts = append(parts, scoped{templates: f})
	}
	return parts
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

// Group brings conditions within the limits of a set by joining neighbours, and makes of the readable IDs it is given
// ones that are label keys and unique.
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

// cut keeps a description within its limit, whole runes only.
func cut(s string) string {
	const dots = "..."
	if len(s) <= MaxDescription {
		return s
	}
	return strings.ToValidUTF8(s[:MaxDescription-len(dots)], "") + dots
}
