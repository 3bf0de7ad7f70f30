package ruleset

import (
	"fmt"
	"strings"

	"proviso.dev/proviso/internal/connection"
)

// subMode says which subresources a pattern covers.
type subMode uint8

const (
	subNone  subMode = iota // the resource itself: pods
	subExact                // one subresource: pods/exec, */scale
	subAny                  // every subresource, not the resource itself: pods/*
	subAll                  // the resource and every subresource: *
	subRaw                  // RBAC's */scale, which compares the subresource as it was requested
)

// kindPattern is one entry of resourceKinds (or of RBAC's resources), without its sign.
type kindPattern struct {
	res      string // plural, or kind before it is expanded
	kind     string // of a resource that is not served yet; used by escalation checks only
	group    string
	sub      string
	mode     subMode
	anyRes   bool
	anyGroup bool
	// notIn takes groups out of anyGroup.
	notIn map[string]bool
}

// parseKind reads an entry of resourceKinds without its sign: *, pods, pods/exec, pods/*, */scale, deployments.apps,
// deployments.apps/scale, *.apps, `pods.` (core group only), Pod, Deployment.apps; in any case.
func parseKind(entry string) (kindPattern, error) {
	var p kindPattern
	left, sub, hasSub := strings.Cut(strings.ToLower(entry), "/")
	name, group, hasGroup := strings.Cut(left, ".")
	p.res, p.group, p.anyGroup = name, group, !hasGroup
	switch {
	case name == "":
		return p, fmt.Errorf("resource kind %q has no name: write a plural, a kind or *", entry)
	case strings.HasPrefix(name, "-"):
		return p, fmt.Errorf("resource kind %q has more than one sign: write one - or none", entry)
	case name != "*" && strings.Contains(name, "*"), strings.Contains(group, "*"):
		return p, fmt.Errorf("resource kind %q: * stands for a whole name only", entry)
	case hasSub && (sub == "" || sub != "*" && strings.Contains(sub, "*")):
		return p, fmt.Errorf("resource kind %q: after the / a subresource or * is needed", entry)
	}
	if name == "*" {
		p.res, p.anyRes = "", true
	}
	switch {
	case !hasSub && p.anyRes:
		p.mode = subAll
	case !hasSub:
		p.mode = subNone
	case sub == "*":
		p.mode = subAny
	default:
		p.mode, p.sub = subExact, sub
	}
	return p, nil
}

// excludes tells whether a negated pattern takes the request out of its rule. A negated resource takes its subresources
// with it: whoever writes -serviceaccounts does not mean to leave serviceaccounts/token.
func (p *kindPattern) excludes(q *request) bool {
	if !p.names(q) {
		return false
	}
	switch p.mode {
	case subExact:
		return q.hasSub && p.sub == q.sub
	case subAny:
		return q.hasSub
	}
	return true
}

// names tells whether the pattern is about the request's resource, whatever its subresource.
func (p *kindPattern) names(q *request) bool {
	return (p.anyRes || p.res == q.resource) && p.inGroup(q.group) && p.real(q)
}

func (p *kindPattern) inGroup(group string) bool {
	if p.anyGroup {
		return p.notIn == nil || !p.notIn[group]
	}
	return p.group == group
}

// real is false for patterns about a future that is not the request's: see request.kind.
func (p *kindPattern) real(q *request) bool { return p.kind == "" || p.kind == q.kind }

// overlaps tells whether the pattern and a request that itself has wildcards (a review that asks for all resources)
// have anything in common. It is only used where saying yes is the safe side.
func (p *kindPattern) overlaps(q *request) bool {
	if !p.anyRes && q.resource != "*" && p.res != q.resource {
		return false
	}
	if !p.anyGroup && q.group != "*" && p.group != q.group {
		return false
	}
	switch p.mode {
	case subNone:
		return !q.hasSub || q.sub == "*" || connection.Connects(q.sub)
	case subExact:
		return q.sub == "*" || q.hasSub && p.sub == q.sub
	case subAny:
		return q.hasSub
	}
	return true
}
