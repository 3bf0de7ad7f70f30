package matching

import (
	"fmt"
	"strings"

	"proviso.dev/proviso/internal/engine/connect"
)

// subMode says which subresources a pattern covers.
type subMode uint8

const (
	SubNone  subMode = iota // the resource itself: pods
	SubExact                // one subresource: pods/exec, */scale
	SubAny                  // every subresource, not the resource itself: pods/*
	SubAll                  // the resource and every subresource: *
	SubRaw                  // RBAC's */scale, which compares the subresource as it was requested
)

// Pattern is one entry of resourceKinds (or of RBAC's resources), without its sign.
type Pattern struct {
	Res      string // plural, or kind before it is expanded
	Kind     string // of a resource that is not served yet; used by escalation checks only
	Group    string
	Sub      string
	Mode     subMode
	AnyRes   bool
	AnyGroup bool
	// NotIn excludes groups from anyGroup.
	NotIn map[string]bool
}

// ParseKind reads an entry of resourceKinds without its sign: *, pods, pods/exec, pods/*, */scale, deployments.apps,
// deployments.apps/scale, *.apps, `pods.` (core group only), Pod, Deployment.apps; in any case.
func ParseKind(entry string) (Pattern, error) {
	var p Pattern
	left, sub, hasSub := strings.Cut(strings.ToLower(entry), "/")
	name, group, hasGroup := strings.Cut(left, ".")
	p.Res, p.Group, p.AnyGroup = name, group, !hasGroup
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
		p.Res, p.AnyRes = "", true
	}
	switch {
	case !hasSub && p.AnyRes:
		p.Mode = SubAll
	case !hasSub:
		p.Mode = SubNone
	case sub == "*":
		p.Mode = SubAny
	default:
		p.Mode, p.Sub = SubExact, sub
	}
	return p, nil
}

// Excludes reports whether a negated pattern excludes the request from its rule. A negated resource excludes its
// subresources, too: the author of -serviceaccounts does not mean to keep serviceaccounts/token.
func (p *Pattern) Excludes(q *Request) bool {
	if !p.Names(q) {
		return false
	}
	switch p.Mode {
	case SubExact:
		return q.HasSub && p.Sub == q.Sub
	case SubAny:
		return q.HasSub
	}
	return true
}

// Names reports whether the pattern matches the request's resource, whatever its subresource.
func (p *Pattern) Names(q *Request) bool {
	return (p.AnyRes || p.Res == q.Resource) && p.InGroup(q.Group) && p.real(q)
}

func (p *Pattern) InGroup(group string) bool {
	if p.AnyGroup {
		return p.NotIn == nil || !p.NotIn[group]
	}
	return p.Group == group
}

// real is false for patterns about a future kind that is not the request's: see Request.Kind.
func (p *Pattern) real(q *Request) bool { return p.Kind == "" || p.Kind == q.Kind }

// overlaps reports whether the pattern and a request that itself has wildcards (a review that asks for all resources)
// have anything in common. It is only used where a wrong yes is safe.
func (p *Pattern) overlaps(q *Request) bool {
	if !p.AnyRes && q.Resource != "*" && p.Res != q.Resource {
		return false
	}
	if !p.AnyGroup && q.Group != "*" && p.Group != q.Group {
		return false
	}
	switch p.Mode {
	case SubNone:
		return !q.HasSub || q.Sub == "*" || connect.Connects(q.Sub)
	case SubExact:
		return q.Sub == "*" || q.HasSub && p.Sub == q.Sub
	case SubAny:
		return q.HasSub
	}
	return true
}
