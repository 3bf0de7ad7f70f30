package refmodel

import (
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Resource is a served resource.
type Resource struct{ Group, Plural, Kind string }

// Builtin tells which resources are the server's own, by their group.
func (r Resource) Builtin() bool {
	return r.Group == "" || r.Group == "apps" || r.Group == Guarded
}

func (r Resource) named(name string) bool { return r.Plural == name || strings.ToLower(r.Kind) == name }

// Guarded is a guarded group, the one of the small universe.
const Guarded = "certificates.k8s.io"

// Answer of a rule.
type Answer int

// The answers.
const (
	No Answer = iota
	Yes
	If     // the rule's condition holds
	IfName // the object has one of the rule's names, and its condition holds
)

// Broken is a condition that does not compile, Personal one that depends on who the caller is.
const (
	Broken   = "BROKEN"
	Personal = "request.user"
	// Whole is a where: about a whole object, or the target of a connection. No rule is drawn with it.
	Whole = "whole"
)

// About is what the where of a rule is about.
type About int

// What a where can be about. Nothing is what a connection has for a rule that reaches it and does not name it: there
// the where of an allow is false, and that of a deny holds.
const (
	Object About = iota
	Target
	Nothing
)

// about says what the where of a rule is about in a request (CA-26).
func about(r *policyv1alpha1.PolicyRule, q *Request) About {
	c := q.connect()
	if c == "" {
		return Object
	}
	if slices.Contains(r.Verbs, c) {
		return Target
	}
	for _, entry := range r.ResourceKinds {
		left, sub, _ := strings.Cut(strings.ToLower(entry), "/")
		name, group, _ := strings.Cut(left, ".")
		if sub == q.Subresource && group == "" && slices.Contains([]string{"*", q.Resource, strings.TrimSuffix(q.Resource, "s")}, name) {
			return Target
		}
	}
	return Nothing
}

// policyRule reads one rule of Policy.
func (w *World) policyRule(r *policyv1alpha1.PolicyRule, q *Request) Answer {
	conditional := r.Where != "" || r.When != "" || r.AttributeRestrictions != nil
	if strings.Contains(r.When, Broken) {
		if !r.Deny {
			return No
		}
		conditional = false
	}
	if !q.ResourceRequest {
		if !w.verbs(r, q) || !urls(r.NonResourceURLs, q.Path) {
			return No
		}
		return yesIf(conditional)
	}
	if len(r.APIGroups) > 0 && !slices.Contains(r.APIGroups, "*") && !slices.Contains(r.APIGroups, q.APIGroup) {
		return No
	}
	if !w.verbsAndKinds(r, q) {
		return No
	}
	if len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, q.Name) && !(r.Deny && slices.ContainsFunc(r.ResourceNames, q.proxies)) {
		if r.Deny && q.Name == "" {
			return IfName
		}
		return No
	}
	return yesIf(conditional)
}

func yesIf(conditional bool) Answer {
	if conditional {
		return If
	}
	return Yes
}

func (w *World) verbs(r *policyv1alpha1.PolicyRule, q *Request) bool {
	positive, negative := signed(r.Verbs)
	return slices.ContainsFunc(positive, q.verbNamed(r.Deny)) && !slices.ContainsFunc(negative, q.verbEntry)
}

// verbsAndKinds reads verbs and kinds together, since exec and proxy also work on the parent resource.
func (w *World) verbsAndKinds(r *policyv1alpha1.PolicyRule, q *Request) bool {
	kinds, notKinds := signed(r.ResourceKinds)
	verbs, notVerbs := signed(r.Verbs)
	if slices.ContainsFunc(notVerbs, q.verbEntry) {
		return false
	}
	if slices.ContainsFunc(notKinds, func(k string) bool { return w.negatedKind(k, q, r) }) {
		return false
	}
	for _, k := range kinds {
		if w.kind(k, q, q.Subresource, r, !r.Deny) && slices.ContainsFunc(verbs, q.verbNamed(r.Deny)) {
			return true
		}
		if c := q.connect(); c != "" && (c == "proxy" || slices.Contains(standardVerbs, q.Verb)) && w.kind(k, q, "", r, !r.Deny) && slices.Contains(verbs, c) && q.verbEntry(c) {
			return true
		}
	}
	return false
}

// kind reports whether an entry of resourceKinds names the request's resource with the given subresource. It gives
// access, or takes it away.
func (w *World) kind(entry string, q *Request, sub string, r *policyv1alpha1.PolicyRule, gives bool) bool {
	entry = strings.ToLower(entry)
	if entry == "*" {
		return true
	}
	left, wantSub, hasSub := strings.Cut(entry, "/")
	name, group, qualified := strings.Cut(left, ".")
	switch {
	case hasSub && wantSub == "*" && sub == "":
		return false
	case hasSub && wantSub != "*" && sub != wantSub:
		return false
	case !hasSub && sub != "" && name != "*":
		return false
	}
	if qualified && group != q.APIGroup {
		return false
	}
	if name == "*" {
		return true
	}
	if !gives {
		return name == q.Resource || w.isKind(q, name)
	}
	return w.gives(name, q, !qualified && (len(r.APIGroups) == 0 || slices.Contains(r.APIGroups, "*")))
}

// negatedKind is kind for a negation, which takes subresources with it.
func (w *World) negatedKind(entry string, q *Request, r *policyv1alpha1.PolicyRule) bool {
	if !strings.Contains(entry, "/") {
		return w.kind(entry, q, "", r, r.Deny)
	}
	return w.kind(entry, q, q.Subresource, r, r.Deny)
}

// isKind reports whether the request's resource has a kind.
func (w *World) isKind(q *Request, kind string) bool {
	for _, r := range w.Served {
		if r.Group == q.APIGroup && r.Plural == q.Resource {
			return strings.ToLower(r.Kind) == kind
		}
	}
	return false
}

// gives reports whether a name that gives access is about the request's resource, whose group is one of those that were
// written, or just any that is not guarded. If nothing built in has the name, it is that of custom resources, of which
// our own groups have none.
func (w *World) gives(name string, q *Request, anyGroup bool) bool {
	if anyGroup && q.APIGroup == Guarded {
		return false
	}
	builtin := false
	for _, r := range w.Served {
		if !r.Builtin() || !r.named(name) || anyGroup && r.Group == Guarded || !anyGroup && r.Group != q.APIGroup {
			continue
		}
		if builtin = true; r.Group == q.APIGroup && r.Plural == q.Resource {
			return true
		}
	}
	own := slices.ContainsFunc(w.Served, func(r Resource) bool { return r.Builtin() && r.Group == q.APIGroup })
	return !builtin && !(own && anyGroup) && (name == q.Resource || w.isKind(q, name))
}

func urls(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix := strings.TrimRight(p, "*")
		return p == path || prefix != p && strings.HasPrefix(path, prefix)
	})
}
