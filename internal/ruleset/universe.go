package ruleset

import (
	"maps"
	"slices"
	"strings"
)

// other stands for a name that no rule mentions. No object and no rule can have it.
const other = "\x00other"

// universe holds, for each part of a request, every name that some rule mentions, and other.
type universe struct {
	verbs, groups, resources, subs, names []string
	urls                                  []string
}

// The names that have a meaning without being written in a rule.
var (
	builtinVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
		"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors", verbImpersonate + other, other}
	builtinResources = []string{"pods", "services", "nodes", other}
	connectSubs      = []string{"exec", "attach", "portforward", "proxy"}
)

type set map[string]bool

func (s set) add(names ...string) {
	for _, n := range names {
		s[n] = true
	}
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// universeOf collects the names of the rules.
func universeOf(rules []*rule) universe {
	verbs, groups, resources, subs, names, urls := set{}, set{}, set{}, set{}, set{}, set{}
	verbs.add(builtinVerbs...)
	groups.add("", other)
	resources.add(builtinResources...)
	subs.add("", other)
	subs.add(connectSubs...)
	names.add("", other)
	urls.add(other)
	for _, r := range rules {
		verbs.add(r.verbs.named...)
		verbs.add(r.verbs.negated...)
		groups.add(r.groups...)
		names.add(r.names...)
		for _, p := range slices.Concat(r.patterns, r.negs) {
			if !p.anyGroup {
				groups.add(p.group)
			}
			if !p.anyRes {
				resources.add(p.res)
			}
			subs.add(p.sub)
		}
		urls.add(r.urls...)
		for _, p := range r.prefixes {
			urls.add(p, p+other)
		}
	}
	// A * in a request is a question about everything, not a name.
	for _, s := range []set{verbs, groups, resources, subs} {
		delete(s, "*")
	}
	return universe{verbs.sorted(), groups.sorted(), resources.sorted(), subs.sorted(), names.sorted(), urls.sorted()}
}

// groupsOf lists the API groups that the rules of some roles mention.
func groupsOf(roles map[scopeKind][]*role, wanted *role) []string {
	groups := set{}
	note := func(r *role) {
		for _, ru := range r.compiled {
			if ru == nil {
				continue
			}
			groups.add(ru.groups...)
			for _, p := range slices.Concat(ru.patterns, ru.negs) {
				if !p.anyGroup {
					groups.add(p.group)
				}
			}
		}
	}
	note(wanted)
	for _, list := range roles {
		for _, r := range list {
			note(r)
		}
	}
	groups.add(other)
	return groups.sorted()
}

// withFuture returns the mapping as if everything that rules mention without its being served were served: for each name
// that is not a plural, in each group that does not have such a kind, a resource of that kind. Whoever grants a kind that
// does not exist yet has to hold it, too.
func (k *Kinds) withFuture(names, groups []string) *Kinds {
	var served []Served
	if k != nil {
		for _, gr := range k.all {
			served = append(served, Served{Group: gr.Group, Resource: gr.Resource})
		}
		for kind, grs := range k.kinds {
			for _, gr := range grs {
				served = append(served, Served{Group: gr.Group, Resource: gr.Resource, Kind: kind})
			}
		}
	}
	for _, name := range names {
		if len(k.pluralIn(name, "", true)) > 0 {
			continue
		}
		for _, g := range groups {
			if len(k.kindIn(name, g, false)) == 0 {
				served = append(served, Served{Group: g, Resource: future + name, Kind: name})
			}
		}
	}
	return NewKinds(served)
}

// future begins the plural of a resource that is not served.
const future = "\x00future:"

// show words a name of the universe for people.
func show(name, what string) string {
	switch {
	case name == other:
		return "any other " + what
	case strings.HasPrefix(name, future):
		return "any resource of the kind " + name[len(future):] + " that will be served"
	case strings.HasSuffix(name, other):
		return strings.TrimSuffix(name, other) + "*"
	case name == "" && what == "API group":
		return `group ""`
	}
	return name
}
