package auditrule

import (
	"slices"
	"strings"
)

// predicate is a product of independent conditions on a request: each of subject, verb, resource, subresource, name,
// scope and path has to hold. A rule of a class is one predicate or an alternative of several.
type predicate struct {
	users, groups []string // both empty: anybody, even nobody
	both          bool     // one of the users, with one of the groups
	verbs         []string // empty: any
	target        target

	// For targetResource.
	pairs        []groupResource
	subresources subresources
	subNames     []string // for subListed
	names        []string // empty: any
	scope        scope
	namespaces   []string // for scopeListed

	// For targetPath.
	paths []string

	// How the request was decided; 0 is any way.
	decisions  decisions
	conditions conditions
}

type groupResource struct{ group, resource string }

type target uint8

const (
	targetAny target = iota
	targetResource
	targetPath
)

type subresources uint8

const (
	subNone   subresources = iota // the resource alone
	subListed                     // the listed subresources, not the resource
	subAll                        // the resource and all its subresources, as "pods/*" in an audit policy
)

type scope uint8

const (
	scopeAny scope = iota
	scopeCluster
	scopeNamespaced
	scopeListed
)

const wildcard = "*"

// dimension is one of the independent conditions.
type dimension uint8

const (
	dimSubject dimension = 1 << iota
	dimVerb
	dimResource
	dimSubresource
	dimName
	dimNamespace
	dimPath
	dimAll = dimSubject | dimVerb | dimResource | dimSubresource | dimName | dimNamespace | dimPath
)

// matches checks the given dimensions one by one. It defines the meaning that the index has to reproduce; the index
// falls back to it for a dimension that is too large.
func (p *predicate) matches(rq *request, dims dimension) bool {
	if dims&dimSubject != 0 && !p.matchesSubject(rq) {
		return false
	}
	if dims&dimVerb != 0 && len(p.verbs) > 0 && !slices.Contains(p.verbs, rq.verb) {
		return false
	}
	switch p.target {
	case targetResource:
		return rq.isResource &&
			(dims&dimResource == 0 || p.matchesResource(rq)) &&
			(dims&dimSubresource == 0 || p.matchesSubresource(rq.subresource)) &&
			(dims&dimName == 0 || len(p.names) == 0 || slices.Contains(p.names, rq.name)) &&
			(dims&dimNamespace == 0 || p.matchesNamespace(rq.namespace))
	case targetPath:
		return !rq.isResource && (dims&dimPath == 0 || p.matchesPath(rq.path))
	default:
		return true
	}
}

func (p *predicate) matchesSubject(rq *request) bool {
	if len(p.users) == 0 && len(p.groups) == 0 {
		return true
	}
	if !rq.authenticated {
		return false
	}
	isUser := slices.Contains(p.users, rq.user)
	if isUser != p.both { // the one decides
		return isUser
	}
	return slices.ContainsFunc(rq.groups, func(g string) bool { return slices.Contains(p.groups, g) })
}

func (p *predicate) matchesResource(rq *request) bool {
	return slices.ContainsFunc(p.pairs, func(gr groupResource) bool {
		return (gr.group == wildcard || gr.group == rq.group) && (gr.resource == wildcard || gr.resource == rq.resource)
	})
}

func (p *predicate) matchesSubresource(sub string) bool {
	switch p.subresources {
	case subAll:
		return true
	case subListed:
		return slices.Contains(p.subNames, sub)
	default:
		return sub == ""
	}
}

func (p *predicate) matchesNamespace(ns string) bool {
	switch p.scope {
	case scopeCluster:
		return ns == ""
	case scopeNamespaced:
		return ns != ""
	case scopeListed:
		return slices.Contains(p.namespaces, ns)
	default:
		return true
	}
}

func (p *predicate) matchesPath(path string) bool {
	return slices.ContainsFunc(p.paths, func(pattern string) bool {
		if prefix, ok := pathPrefix(pattern); ok {
			return strings.HasPrefix(path, prefix)
		}
		return path == pattern
	})
}

// pathPrefix returns what a path has to begin with to match a pattern that ends in "*"; false for an exact pattern.
func pathPrefix(pattern string) (string, bool) {
	prefix := strings.TrimRight(pattern, wildcard)
	return prefix, len(prefix) < len(pattern)
}
