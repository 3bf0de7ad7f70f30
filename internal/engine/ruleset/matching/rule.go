package matching

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/connect"
)

// Condition is what the where, when and attributeRestrictions of a rule were compiled to. The index only carries it.
// Code that does not know its type must not treat the rule as unconditional.
type Condition interface {
	// RuleCondition marks the types that are conditions.
	RuleCondition()
}

// Rule is one compiled rule.
type Rule struct {
	Index int // in the role, as written
	Deny  bool
	Verbs VerbSet
	// Groups limits the rule to these API groups; nil means all.
	Groups []string
	// Names limits the rule to objects of these names, in order; nil means all.
	Names []string
	// Patterns are the kinds, negs the negated ones.
	Patterns []Pattern
	Negs     []Pattern
	// urls and prefixes are the non-resource paths.
	URLs, Prefixes []string
	Cond           Condition
	// Aims are the connections on which the where of the rule is about the target; none if it has no where.
	Aims connect.Set
	// Soft is true for a deny rule that stands for unreadable policy: it yields to cluster-wide grants, also in the
	// master tier.
	Soft bool
	// RBAC is true for rules of RBAC, which do not support wildcards in requests, negation and conditions.
	RBAC bool
}

// Fit is how one rule fits one request. A conditional rule is never read as one that matches.
type Fit uint8

const (
	Misses Fit = iota
	Applies
	appliesIf     // its condition holds
	AppliesIfName // if the object, which the request does not name, has one of its names (and its condition holds)
)

// Cell is one kind pattern of a rule, stored where a request for the resource finds it.
type Cell struct {
	*Pattern
	Hash uint64 // of res, or of kind where the pattern has one
	Rule *Rule
}

// Check reports whether the rule applies to a request that has the cell's resource. Everything unknown counts against
// the caller: an allow rule with names does not match a request without one, unless the name of each object is looked
// at, and a deny rule may.
func (c *Cell) Check(q *Request) Fit {
	r := c.Rule
	if q.Wild && !r.RBAC {
		return c.checkWild(q)
	}
	byParent := false
	switch c.Mode {
	case SubNone:
		byParent = q.HasSub
		if byParent && q.Family == FamilyNone {
			return Misses
		}
	case SubExact:
		if !q.HasSub || c.Sub != q.Sub {
			return Misses
		}
	case SubAny:
		if !q.HasSub {
			return Misses
		}
	case SubRaw:
		if q.RawSub == "" || c.Sub != q.RawSub {
			return Misses
		}
	}
	if byParent && !r.Verbs.MatchesParent(q) || !byParent && !r.Verbs.Matches(q) {
		return Misses
	}
	if !c.InGroup(q.Group) || !c.real(q) || r.Groups != nil && !slices.Contains(r.Groups, q.Group) {
		return Misses
	}
	for i := range r.Negs {
		if r.Negs[i].Excludes(q) {
			return Misses
		}
	}
	return r.named(q)
}

// checkWild answers a review that asks about all verbs, resources or groups at once. An allow rule has to cover all of
// them, so one with exceptions does not; a deny rule has to touch one of them.
func (c *Cell) checkWild(q *Request) Fit {
	r := c.Rule
	if r.Deny {
		inGroups := r.Groups == nil || q.Group == "*" || slices.Contains(r.Groups, q.Group)
		if !c.overlaps(q) || !r.Verbs.overlaps(q) || !inGroups {
			return Misses
		}
		return r.named(q)
	}
	var modeOK bool
	switch c.Mode {
	case SubAll:
		modeOK = true
	case SubAny:
		modeOK = q.HasSub
	case SubExact:
		modeOK = q.HasSub && c.Sub == q.Sub
	case SubNone:
		modeOK = !q.HasSub
	}
	resOK := c.AnyRes || c.Res == q.Resource
	groupOK := c.AnyGroup && c.NotIn == nil && r.Groups == nil || q.Group != "*" && c.InGroup(q.Group) &&
		(r.Groups == nil || slices.Contains(r.Groups, q.Group))
	if !modeOK || !resOK || !groupOK || len(r.Negs) > 0 || !r.Verbs.Matches(q) ||
		q.HasSub && (q.Sub == "*" || connect.Connects(q.Sub)) && !r.Verbs.connects(q) {
		return Misses
	}
	return r.named(q)
}

func (r *Rule) named(q *Request) Fit {
	if r.Names != nil && !Contains(r.Names, q.Name) && !(r.Deny && q.target != "" && r.NamesTarget(q.target)) {
		if (r.Deny || q.ByName) && q.Name == "" {
			return AppliesIfName
		}
		return Misses
	}
	if r.Cond != nil {
		return appliesIf
	}
	return Applies
}

// NamesTarget reports whether a deny rule names the target of a proxy request, however either of them spells it
// (PO-20). An allow rule is literal: the name of a pod does not include all its ports.
func (r *Rule) NamesTarget(target string) bool {
	return Contains(r.Names, target) ||
		slices.ContainsFunc(r.Names, func(n string) bool { return connect.Name(connect.Proxy, n) == target })
}

// Subset reports whether every entry of small is in large.
func Subset(small, large []string) bool {
	return !slices.ContainsFunc(small, func(s string) bool { return !slices.Contains(large, s) })
}

// Contains looks up a name in an ordered list, which can be long if it is hostile.
func Contains(names []string, name string) bool {
	if len(names) <= LinearMax {
		return slices.Contains(names, name)
	}
	_, found := slices.BinarySearch(names, name)
	return found
}

// CheckURL is check for a non-resource request.
func (r *Rule) CheckURL(q *Request) Fit {
	if !r.Verbs.Matches(q) && !(r.Deny && q.Verb == VerbAll && r.Verbs.overlaps(q)) {
		return Misses
	}
	if !slices.Contains(r.URLs, q.path) && !slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(q.path, p) }) {
		return Misses
	}
	if r.Cond != nil {
		return appliesIf
	}
	return Applies
}

// SplitURLs separates paths from prefixes. As in RBAC, all trailing stars are one.
func SplitURLs(patterns []string) (urls, prefixes []string) {
	for _, p := range patterns {
		if strings.HasSuffix(p, "*") {
			prefixes = append(prefixes, strings.TrimRight(p, "*"))
		}
		urls = append(urls, p)
	}
	return urls, prefixes
}
