package refmodel

import (
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Resource is a served resource.
type Resource struct{ Group, Plural, Kind string }

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
)

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
	if slices.ContainsFunc(notKinds, func(k string) bool { return w.negatedKind(k, q, !r.Deny) }) {
		return false
	}
	for _, k := range kinds {
		if w.kind(k, q, q.Subresource, r.Deny) && slices.ContainsFunc(verbs, q.verbNamed(r.Deny)) {
			return true
		}
		if c := q.connect(); c != "" && (c == "proxy" || slices.Contains(standardVerbs, q.Verb)) && w.kind(k, q, "", r.Deny) && slices.Contains(verbs, c) && q.verbEntry(c) {
			return true
		}
	}
	return false
}

// kind tells whether an entry of resourceKinds names the request's resource with the given subresource.
func (w *World) kind(entry string, q *Request, sub string, cautious bool) bool {
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
	return name == "*" || w.means(name, group, qualified, q, cautious)
}

// negatedKind is kind for a negation, which takes subresources with it.
func (w *World) negatedKind(entry string, q *Request, cautious bool) bool {
	if !strings.Contains(entry, "/") {
		return w.kind(entry, q, "", cautious)
	}
	return w.kind(entry, q, q.Subresource, cautious)
}

// means tells whether a name is the request's resource: by plural, or by kind if no such plural is served. Where matching
// more is safe, a name that nothing has also stands for the plural that such a kind would have.
func (w *World) means(name, group string, qualified bool, q *Request, cautious bool) bool {
	if name == q.Resource {
		return true
	}
	in := func(r Resource) bool { return !qualified || r.Group == group }
	if slices.ContainsFunc(w.Served, func(r Resource) bool { return r.Plural == name && in(r) }) {
		return false
	}
	known := false
	for _, r := range w.Served {
		if strings.ToLower(r.Kind) == name && in(r) {
			if known = true; r.Plural == q.Resource && r.Group == q.APIGroup {
				return true
			}
		}
	}
	return cautious && !known && name+"s" == q.Resource // the worlds have no kinds with an irregular plural
}

func urls(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix := strings.TrimRight(p, "*")
		return p == path || prefix != p && strings.HasPrefix(path, prefix)
	})
}
