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

// universe holds, for each part of a request, every name that matters, and other. A name matters if a wanted rule or a
// deny rule mentions it, or if a rule of the writer excepts it. A name that a rule of the writer only allows does not
// matter: a rule that wants it without naming it wants all other names, too, and what is held for those is held for
// this one, since another allow rule never takes anything away.
type universe struct {
	groups, subs []string
	// resources and kinds are by API group, since a rule about another group does not make a name matter. A kind is one
	// that a resource could have if it were served; "" is none of them.
	resources, kinds byGroup
	urls             []string
	paths            int // patterns of paths
}

// The names that have a meaning without being written in a rule.
var (
	builtinVerbs = append(verbs.All(),
		"escalate", "bind", "deny", "approve", "unsafe-delete-ignore-read-errors", matching.VerbImpersonate+other, matching.VerbGranular+other, matching.VerbReveal+other, other)
	builtinResources = []string{"pods", "services", "nodes", other}
)

// byGroup holds names that are mentioned for one API group, and under "*" those that are mentioned for all. listed
// caches those of a group, sorted.
type byGroup struct {
	names  map[string]set
	listed map[string][]string
}

func newByGroup() byGroup {
	return byGroup{names: map[string]set{"*": {}}, listed: map[string][]string{}}
}

// add adds a name for the groups of a pattern and its rule.
func (b byGroup) add(name string, p *matching.Pattern, r *matching.Rule) {
	groups := r.Groups
	switch {
	case !p.AnyGroup:
		groups = []string{p.Group}
	case groups == nil:
		groups = []string{"*"}
	}
	for _, g := range groups {
		if b.names[g] == nil {
			b.names[g] = set{}
		}
		b.names[g].add(name)
	}
}

// in lists the names that are mentioned for a group.
func (b byGroup) in(group string) []string {
	if list, ok := b.listed[group]; ok {
		return list
	}
	all := maps.Clone(b.names["*"])
	for name := range b.names[group] {
		all.add(name)
	}
	b.listed[group] = all.sorted()
	return b.listed[group]
}

type set map[string]bool

func (s set) add(names ...string) {
	for _, n := range names {
		s[n] = true
	}
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// universeOf collects the names of the rules.
func universeOf(rules []*matching.Rule, allows func(*matching.Rule) bool) universe {
	groups, subs, urls := set{}, set{}, set{}
	resources, kinds := newByGroup(), newByGroup()
	groups.add("", other)
	resources.names["*"].add(builtinResources...)
	subs.add("", other)
	subs.add(connect.Subresources()...)
	subs.add(matching.SubEviction)
	kinds.names["*"].add("")
	urls.add(other)
	closed := set{}
	paths := 0
	for _, r := range rules {
		paths += len(r.URLs) + len(r.Prefixes)
		matters := slices.Concat(r.Patterns, r.Negs)
		if allows(r) {
			matters = r.Negs
		} else {
			groups.add(r.Groups...)
			urls.add(r.URLs...)
			for _, p := range r.Prefixes {
				urls.add(p, p+other)
			}
		}
		for _, p := range r.Patterns {
			closed.add(slices.Collect(maps.Keys(p.NotIn))...)
		}
		for _, p := range matters {
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
			closed.add(slices.Collect(maps.Keys(p.NotIn))...)
		}
	}
	// Groups that some names do not reach matter even if no rule mentions them: the guarded ones, and one more, which
	// stands for all of them.
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
	for _, s := range []set{groups, subs} {
		delete(s, "*")
	}
	return universe{groups.sorted(), subs.sorted(), resources, kinds, urls.sorted(), paths}
}

// show describes a name of the universe for people.
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
