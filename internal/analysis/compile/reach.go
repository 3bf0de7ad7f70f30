package compile

import (
	"hash/maphash"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// reach is what a rule matches of one resource or subresource.
type reach struct {
	*plan.Resource
	verbs []string
}

// name is the resource as RBAC and admission policies write it.
func (r reach) name() string {
	if r.Subresource == "" {
		return r.Resource.Resource
	}
	return r.Resource.Resource + "/" + r.Subresource
}

// connects reports whether requests are connections, which are admitted as such whatever their verb is.
func (r reach) connects() bool {
	return connect.Of(r.Group, r.Resource.Resource, r.Subresource) != connect.None
}

// with is the reach with some of its verbs.
func (r reach) with(keep func(string) bool) reach {
	r.verbs = slices.DeleteFunc(slices.Clone(r.verbs), func(v string) bool { return !keep(v) })
	return r
}

// reaches asks a rule about every resource and every verb that it could mean. Names do not count.
func reaches(r *matching.Rule, resources []plan.Resource) (all []reach) {
	seed := maphash.MakeSeed()
	for i := range resources {
		one := reach{Resource: &resources[i]}
		candidates := slices.Concat(one.Verbs, r.Verbs.Named)
		if !one.Virtual {
			candidates = slices.Concat(verbs.All(), candidates)
		}
		for _, verb := range candidates {
			if !slices.Contains(one.verbs, verb) && !connect.StandsIn(verb) && matches(r, seed, one, verb) {
				one.verbs = append(one.verbs, verb)
			}
		}
		if len(one.verbs) > 0 {
			slices.Sort(one.verbs)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b reach) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.name(), b.name())
	})
	return slices.CompactFunc(all, func(a, b reach) bool { return a.Group == b.Group && a.name() == b.name() })
}

// matches asks the rule itself.
func matches(r *matching.Rule, seed maphash.Seed, at reach, verb string) bool {
	attrs := &authorizer.AttributesRecord{Verb: verb, APIGroup: at.Group, APIVersion: at.Version, Resource: at.Resource.Resource,
		Subresource: at.Subresource, ResourceRequest: true}
	if len(r.Names) > 0 {
		attrs.Name = r.Names[0]
	}
	var q matching.Request
	q.Set(seed, attrs)
	for i := range r.Patterns {
		cell := matching.Cell{Pattern: &r.Patterns[i], Rule: r}
		if (cell.AnyRes || cell.Res == q.Resource) && cell.Check(&q) != matching.Misses {
			return true
		}
	}
	return false
}

// open reports whether a rule also matches what is not served yet.
func open(r *matching.Rule) bool {
	return slices.ContainsFunc(r.Patterns, func(p matching.Pattern) bool { return p.AnyRes })
}
