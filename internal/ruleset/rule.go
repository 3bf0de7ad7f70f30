package ruleset

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/connection"
)

// Condition is what the where, when and attributeRestrictions of a rule were compiled to. The index only carries it.
// Whoever takes it out and does not know its type must not take the rule for one without a condition.
type Condition interface {
	// RuleCondition marks the types that are meant to be one.
	RuleCondition()
}

// rule is one compiled rule.
type rule struct {
	index int // in the role, as written
	deny  bool
	verbs verbSet
	// groups limits the rule to these API groups; nil is all of them.
	groups []string
	// names limits the rule to objects of these names, in order; nil is all of them.
	names []string
	// patterns are the kinds, negs the negated ones.
	patterns []kindPattern
	negs     []kindPattern
	// urls and prefixes are the non-resource paths.
	urls, prefixes []string
	cond           Condition
	// soft is a deny rule that stands for what cannot be read: it yields to cluster-wide grants in the master tier,
	// too.
	soft bool
	// rbac rules know nothing of wildcards in requests, negation and conditions.
	rbac bool
}

// fit is how one rule fits one request. A conditional rule is never read as one that matches.
type fit uint8

const (
	misses fit = iota
	applies
	appliesIf     // its condition holds
	appliesIfName // the object, whose name the request does not say, has one of its names (and its condition holds)
)

// cell is one kind pattern of a rule, in the place where a request for the resource finds it.
type cell struct {
	kindPattern
	hash uint64 // of res
	rule *rule
}

// check tells whether the rule applies to a request that has the cell's resource. Everything unknown counts against the
// caller: an allow rule with names does not match a request without one, and a deny rule may.
func (c *cell) check(q *request) fit {
	r := c.rule
	if q.wild && !r.rbac {
		return c.checkWild(q)
	}
	byParent := false
	switch c.mode {
	case subNone:
		byParent = q.hasSub
		if byParent && q.family == familyNone {
			return misses
		}
	case subExact:
		if !q.hasSub || c.sub != q.sub {
			return misses
		}
	case subAny:
		if !q.hasSub {
			return misses
		}
	case subRaw:
		if q.rawSub == "" || c.sub != q.rawSub {
			return misses
		}
	}
	if byParent && !r.verbs.matchesParent(q) || !byParent && !r.verbs.matches(q) {
		return misses
	}
	if !c.inGroup(q.group) || !c.real(q) || r.groups != nil && !slices.Contains(r.groups, q.group) {
		return misses
	}
	for i := range r.negs {
		if r.negs[i].excludes(q) {
			return misses
		}
	}
	return r.named(q)
}

// checkWild answers a review that asks about all verbs, resources or groups at once. An allow rule has to cover all of
// them, so one with exceptions does not; a deny rule has to touch one of them.
func (c *cell) checkWild(q *request) fit {
	r := c.rule
	if r.deny {
		inGroups := r.groups == nil || q.group == "*" || slices.Contains(r.groups, q.group)
		if !c.overlaps(q) || !r.verbs.overlaps(q) || !inGroups {
			return misses
		}
		return r.named(q)
	}
	var modeOK bool
	switch c.mode {
	case subAll:
		modeOK = true
	case subAny:
		modeOK = q.hasSub
	case subExact:
		modeOK = q.hasSub && c.sub == q.sub
	case subNone:
		modeOK = !q.hasSub
	}
	resOK := c.anyRes || c.res == q.resource
	groupOK := c.anyGroup && c.notIn == nil && r.groups == nil || q.group != "*" && c.inGroup(q.group) &&
		(r.groups == nil || slices.Contains(r.groups, q.group))
	if !modeOK || !resOK || !groupOK || len(r.negs) > 0 || !r.verbs.matches(q) ||
		q.hasSub && (q.sub == "*" || connection.Connects(q.sub)) && !r.verbs.connects(q) {
		return misses
	}
	return r.named(q)
}

func (r *rule) named(q *request) fit {
	if r.names != nil && !contains(r.names, q.name) && !(r.deny && q.target != "" && r.namesTarget(q.target)) {
		if r.deny && q.name == "" {
			return appliesIfName
		}
		return misses
	}
	if r.cond != nil {
		return appliesIf
	}
	return applies
}

// namesTarget tells whether a deny rule names the object that a proxy request is about, however either of them spells
// it (PO-20). An allow rule means only what it says: the name of a pod is not all of its ports.
func (r *rule) namesTarget(target string) bool {
	return contains(r.names, target) ||
		slices.ContainsFunc(r.names, func(n string) bool { return connection.Name(connection.Proxy, n) == target })
}

// contains looks for a name in an ordered list, of which a hostile one can be long.
func contains(names []string, name string) bool {
	if len(names) <= linearMax {
		return slices.Contains(names, name)
	}
	_, found := slices.BinarySearch(names, name)
	return found
}

// checkURL is check for a non-resource request.
func (r *rule) checkURL(q *request) fit {
	if !r.verbs.matches(q) && !(r.deny && q.verb == verbAll && r.verbs.overlaps(q)) {
		return misses
	}
	if !slices.Contains(r.urls, q.path) && !slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(q.path, p) }) {
		return misses
	}
	if r.cond != nil {
		return appliesIf
	}
	return applies
}

// splitURLs separates paths from prefixes. As in RBAC, all trailing stars are one.
func splitURLs(patterns []string) (urls, prefixes []string) {
	for _, p := range patterns {
		if strings.HasSuffix(p, "*") {
			prefixes = append(prefixes, strings.TrimRight(p, "*"))
		}
		urls = append(urls, p)
	}
	return urls, prefixes
}
