package escalation

import (
	"maps"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// other stands for a name that no rule mentions. No object and no rule can have it.
const other = "\x00other"

// universe holds, for each part of a request, every name that some rule mentions, and other.
type universe struct {
	verbs, groups, subs, names []string
	// resources and kinds are by API group, since a rule about another group does not make a name worth looking at. A
	// kind is one that a resource could have if it were served; "" is none of them.
	resources, kinds byGroup
	urls             []string
	paths            int // patterns of paths
}

// The names that have a meaning without being written in a rule.
var (
	builtinVerbs = append(verbs.All(),
		"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors", matching.VerbImpersonate+other, matching.VerbGranular+other, other)
	builtinResources = []string{"pods", "services", "nodes", other}
)

// byGroup holds names that are mentioned for one API group, and under "*" those that are mentioned for all.
type byGroup map[string]set

// add notes a name for the groups of a pattern and its rule.
func (b byGroup) add(name string, p *matching.Pattern, r *matching.Rule) {
	groups := r.Groups
	switch {
	case !p.AnyGroup:
		groups = []string{p.Group}
	case groups == nil:
		groups = []string{"*"}
	}
	for _, g := range groups {
		if b[g] == nil {
			b[g] = set{}
		}
		b[g].add(name)
	}
}

// in lists the names that are mentioned for a group.
func (b byGroup) in(group string) []string {
	all := maps.Clone(b["*"])
	for name := range b[group] {
		all.add(name)
	}
	return all.sorted()
}

type set map[string]bool

func (s set) add(names ...string) {
	for _, n := range names {
		s[n] = true
	}
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// universeOf collects the names of the rules.
func universeOf(rules []*matching.Rule) universe {
	verbs, groups, subs, names, urls := set{}, set{}, set{}, set{}, set{}
	resources, kinds := byGroup{"*": {}}, byGroup{"*": {}}
	verbs.add(builtinVerbs...)
	groups.add("", other)
	resources["*"].add(builtinResources...)
	subs.add("", other)
	subs.add(connect.Subresources()...)
	subs.add(matching.SubEviction)
	names.add("", other)
	kinds["*"].add("")
	urls.add(other)
	closed := set{}
	paths := 0
	for _, r := range rules {
		verbs.add(r.Verbs.Named...)
		verbs.add(r.Verbs.Negated...)
		groups.add(r.Groups...)
		names.add(r.Names...)
		for _, p := range slices.Concat(r.Patterns, r.Negs) {
			if !p.AnyGroup {
				groups.add(p.Group)
			}
			if !p.AnyRes {
				resources.add(p.Res, &p, r)
			}
			if p.Kind != "" {
				kinds.add(p.Kind, &p, r)
			}
			subs.add(p.Sub)
			if p.NotIn != nil {
				closed.add(slices.Collect(maps.Keys(p.NotIn))...)
			}
		}
		urls.add(r.URLs...)
		paths += len(r.URLs) + len(r.Prefixes)
		for _, p := range r.Prefixes {
			urls.add(p, p+other)
		}
	}
	// Groups that some names stop short of are worth looking at, also if no rule mentions them: the guarded ones, and
	// one more, which stands for all of them.
	for _, g := range closed.sorted() {
		if slices.Contains(matching.Guarded, g) {
			groups.add(g)
		}
	}
	for _, g := range closed.sorted() {
		if !groups[g] {
			groups.add(g)
			break
		}
	}
	// A * in a request is a question about everything, not a name.
	for _, s := range []set{verbs, groups, subs} {
		delete(s, "*")
	}
	return universe{verbs.sorted(), groups.sorted(), subs.sorted(), names.sorted(), resources, kinds, urls.sorted(), paths}
}

// show words a name of the universe for people.
func show(name, what string) string {
	switch {
	case name == other:
		return "any other " + what
	case strings.HasSuffix(name, other):
		return strings.TrimSuffix(name, other) + "*"
	case name == "" && what == "API group":
		return `group ""`
	}
	return name
}
