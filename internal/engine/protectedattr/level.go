package protectedattr

import (
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Attribute says whether a protection is about a label or an annotation.
type Attribute uint8

// The kinds of attribute, in the order in which refusals are looked for.
const (
	Label Attribute = iota
	Annotation
)

// String returns how refusals name the kind of attribute.
func (a Attribute) String() string {
	if a == Label {
		return "label"
	}
	return "annotation"
}

// field is the name of the map that holds attributes of this kind.
func (a Attribute) field() string {
	if a == Label {
		return "labels"
	}
	return "annotations"
}

// protection is one compiled ProtectedAttribute or ClusterProtectedAttribute.
type protection struct {
	name      string
	cluster   bool
	role      Role
	templates bool // scope IncludeTemplates
	values    []string
	// closed protects the values that are not listed, too.
	closed bool
	// resources are those that it is limited to; none means all.
	resources []matching.Pattern
	// unreadable is true if it does not say what it protects.
	unreadable bool
}

func (p *protection) kind() string {
	if p.cluster {
		return "ClusterProtectedAttribute"
	}
	return "ProtectedAttribute"
}

// level holds the protections of one attribute key that apply together: all cluster-wide ones, or all of one
// namespace. Each level is satisfied on its own (PA-4). The zero level protects nothing.
type level struct {
	// any protects every value.
	any []*protection
	// byValue protects the listed values only.
	byValue map[string][]*protection
	// all of them, and those that are closed.
	all, closed []*protection
}

func (l *level) add(p *protection) {
	l.all = append(l.all, p)
	if p.closed {
		l.closed = append(l.closed, p)
	}
	if len(p.values) == 0 {
		l.any = append(l.any, p)
		return
	}
	if l.byValue == nil {
		l.byValue = map[string][]*protection{}
	}
	for _, v := range p.values {
		if have := l.byValue[v]; len(have) > 0 && have[len(have)-1] == p {
			continue // the same value listed twice
		}
		l.byValue[v] = append(l.byValue[v], p)
	}
}

// permits reports whether value can be set: it is free at this level, or the caller is a member of one role that covers
// it (PA-2). Where only the listed values may be used, no role covers a value that is not listed (PA-14).
func (l *level) permits(value string, at place, req *Request) bool {
	if l == nil {
		return true
	}
	covered := false
	for _, list := range [2][]*protection{l.byValue[value], l.any} {
		for _, p := range list {
			if !p.applies(at, req) {
				continue
			}
			if req.member(p) {
				return true
			}
			covered = true
		}
	}
	return !covered && (len(l.closed) == 0 || len(l.closing(at, req)) == 0)
}

// releases reports whether value can be replaced or removed. For a value that is not listed where only the listed ones
// may be used, being a member of any role of the level is enough (PA-14).
func (l *level) releases(value string, at place, req *Request) bool {
	if l.permits(value, at, req) {
		return true
	}
	if len(l.closing(at, req)) == 0 || l.lists(value, at, req) {
		return false
	}
	return slices.ContainsFunc(l.applying(at, req), req.member)
}

// covering lists the protections of value, for the refusal.
func (l *level) covering(value string, at place, req *Request) []*protection {
	return append(applying(l.byValue[value], at, req), applying(l.any, at, req)...)
}

// lists reports whether a protection lists value.
func (l *level) lists(value string, at place, req *Request) bool {
	return len(applying(l.byValue[value], at, req)) > 0
}

// closing returns the protections that protect values that are not listed.
func (l *level) closing(at place, req *Request) []*protection { return applying(l.closed, at, req) }

// applying returns all protections of the level that apply to a place.
func (l *level) applying(at place, req *Request) []*protection { return applying(l.all, at, req) }

func applying(list []*protection, at place, req *Request) (some []*protection) {
	for _, p := range list {
		if p.applies(at, req) {
			some = append(some, p)
		}
	}
	return some
}

// rule is everything that is known about one attribute key.
type rule struct {
	cluster    level
	namespaces map[string]*level
}

// at returns the namespace's own level, or nil.
func (r *rule) at(namespace string) *level {
	if namespace == "" {
		return nil
	}
	return r.namespaces[namespace]
}
