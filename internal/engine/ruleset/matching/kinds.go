package matching

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/questions"
)

// Guarded are the API groups that a name without a group never gives access to: power over policy, over what is
// recorded, and over the API itself (PO-10). A rule that means them has to say so, by group or with *.
var Guarded = []string{
	"policy.proviso.dev", "auditregistration.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
	"apiregistration.k8s.io", "certificates.k8s.io", "access.proviso.dev",
}

// ClusterScoped stands, in deny rules and in negations of allow rules, for every custom resource that belongs to no
// namespace, whatever its name. The default roles exclude them with it (PO-10).
const ClusterScoped = "cluster-scoped"

// Served is one served resource.
type Served struct {
	Group    string
	Resource string // plural, without a subresource
	Kind     string
	// Builtin is true for resources that this server itself serves. Only this server is trusted about a group with such
	// a resource: what other servers claim to serve in it does not count.
	Builtin bool
}

// Kinds is the mapping from names, plurals and kinds, to the resources that have them. A resource has one kind. It is
// immutable. A nil *Kinds knows no name.
type Kinds struct {
	named map[string][]Served // by plural and by kind in lower case
	own   map[string]bool     // groups with built-in resources
	// closed are the groups without custom resources: our own, those reserved for us, and the guarded ones.
	closed map[string]bool
	all    []schema.GroupResource
	// scoped are the cluster-scoped custom resources among them.
	scoped []Served
	known  map[schema.GroupResource]bool
}

// NewKinds returns the mapping for what is served. Versions and subresources are ignored. Of two kinds of one resource
// the first counts. Reserved groups are built-in, too, even if this server serves nothing in them.
func NewKinds(served []Served, reserved ...string) *Kinds {
	k := &Kinds{named: map[string][]Served{}, own: map[string]bool{}, closed: map[string]bool{}, known: map[schema.GroupResource]bool{}}
	for _, s := range served {
		if s.Builtin {
			k.own[s.Group], k.closed[s.Group] = true, true
		}
	}
	for _, g := range slices.Concat(reserved, Guarded) {
		k.closed[g] = true
	}
	for _, s := range served {
		gr := s.resource()
		if strings.Contains(s.Resource, "/") || k.known[gr] || k.own[s.Group] && !s.Builtin {
			continue
		}
		k.known[gr] = true
		k.all = append(k.all, gr)
		k.name(s)
	}
	for _, v := range questions.Virtual() {
		if s := (Served{Group: v.Group, Resource: v.Resource, Kind: v.Kind, Builtin: true}); k.own[s.Group] && !k.known[s.resource()] {
			k.name(s)
		}
	}
	slices.SortFunc(k.all, compareGR)
	for _, list := range k.named {
		slices.SortFunc(list, func(a, b Served) int { return compareGR(a.resource(), b.resource()) })
	}
	return k
}

// Scoped returns the mapping with the information which resources are cluster-scoped.
func (k *Kinds) Scoped(clusterScoped []schema.GroupResource) *Kinds {
	next := *k
	next.scoped = nil
	for _, gr := range clusterScoped {
		if k.known[gr] && !k.own[gr.Group] {
			next.scoped = append(next.scoped, Served{Group: gr.Group, Resource: gr.Resource})
		}
	}
	slices.SortFunc(next.scoped, func(a, b Served) int { return compareGR(a.resource(), b.resource()) })
	next.scoped = slices.Compact(next.scoped)
	return &next
}

func (k *Kinds) name(s Served) {
	k.named[s.Resource] = append(k.named[s.Resource], s)
	if kind := strings.ToLower(s.Kind); kind != "" && kind != s.Resource {
		k.named[kind] = append(k.named[kind], s)
	}
}

// noKinds is the empty mapping.
var noKinds = NewKinds(nil)

func (s Served) resource() schema.GroupResource {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}
}

func compareGR(a, b schema.GroupResource) int {
	if c := strings.Compare(a.Group, b.Group); c != 0 {
		return c
	}
	return strings.Compare(a.Resource, b.Resource)
}

// Resources lists the served resources, by group and plural.
func (k *Kinds) Resources() []schema.GroupResource {
	if k == nil {
		return nil
	}
	return slices.Clone(k.all)
}

// Resolve finds the served resources that a name in a question means: the built-in ones with that plural or kind, in
// any group, or, if there are none, all others. A wildcard is not resolved.
func (k *Kinds) Resolve(name string) []schema.GroupResource {
	p, err := ParseKind(name)
	if err != nil || p.AnyRes {
		return nil
	}
	all := k.Lookup(&p)
	found := all
	if builtin := builtins(all); len(builtin) > 0 {
		found = builtin
	}
	var out []schema.GroupResource
	for _, s := range found {
		out = append(out, s.resource())
	}
	return out
}

// Lookup lists the resources that have the pattern's name, as a plural or as a kind, in the pattern's groups.
func (k *Kinds) Lookup(p *Pattern) (found []Served) {
	if k == nil {
		return nil
	}
	for _, s := range k.named[p.Res] {
		if p.InGroup(s.Group) {
			found = append(found, s)
		}
	}
	return found
}

func builtins(all []Served) (out []Served) {
	for _, s := range all {
		if s.Builtin {
			out = append(out, s)
		}
	}
	return out
}

// Fixed reports whether what a name gives access to stays the same whatever else is served: it names its group, is a
// wildcard, or means built-in resources.
func (k *Kinds) Fixed(name string) bool {
	p, err := ParseKind(name)
	return err == nil && (p.AnyRes || !p.AnyGroup || slices.ContainsFunc(k.Lookup(&p), func(s Served) bool { return s.Builtin && !slices.Contains(Guarded, s.Group) }))
}

// Settled reports whether a resource cannot get a kind that it does not have, or has none, while this server runs: it
// is served, its group is this server's own, or another resource of the group has the kind.
func (k *Kinds) Settled(group, resource, kind string) bool {
	if k == nil {
		return false
	}
	return k.own[group] || k.known[schema.GroupResource{Group: group, Resource: resource}] ||
		slices.ContainsFunc(k.named[kind], func(s Served) bool { return s.Group == group && strings.EqualFold(s.Kind, kind) })
}

// Expand turns a name into patterns on plurals, and reports whether anything of that name is served.
//
// Where matching more gives access, in an allow rule or an exception of a deny rule, the name means the built-in
// resources with that plural or kind, so serving a resource of the same name cannot extend its meaning. If there are
// none, it means every custom resource with that plural or kind. Without a group it does not reach the guarded groups.
//
// Where matching more takes access away, in a deny rule or a negation of an allow rule, the name means everything with
// that plural and everything with that kind, in every group: a new resource cannot reduce its meaning.
//
// With future, the patterns also match what will be served one day, see kindPattern.kind.
func (k *Kinds) Expand(p Pattern, gives, future bool) (patterns []Pattern, served bool) {
	if p.AnyRes {
		return []Pattern{p}, true
	}
	if k == nil {
		k = noKinds
	}
	if p.Res == ClusterScoped && p.AnyGroup && !gives {
		return p.each(k.scoped), true
	}
	stops := gives && p.AnyGroup
	all := k.Lookup(&p)
	if stops {
		all = slices.DeleteFunc(all, func(s Served) bool { return slices.Contains(Guarded, s.Group) })
	}
	if builtin := builtins(all); gives && len(builtin) > 0 {
		return p.each(builtin), true
	}
	if stops {
		p.NotIn = k.closed
	}
	patterns = append(patterns, p)
	patterns = append(patterns, p.each(slices.DeleteFunc(slices.Clone(all), func(s Served) bool { return s.Resource == p.Res }))...)
	if future {
		q := p
		q.Kind, q.Res, q.AnyRes = p.Res, "", true
		patterns = append(patterns, q)
	}
	return patterns, len(all) > 0
}

// each returns the pattern once for each of some resources.
func (p Pattern) each(resources []Served) (out []Pattern) {
	for _, s := range resources {
		q := p
		q.Res, q.Group, q.AnyGroup, q.NotIn = s.Resource, s.Group, false, nil
		out = append(out, q)
	}
	return out
}

// Changed lists the names whose meaning differs between next and k; all is true if any could.
func (k *Kinds) Changed(next *Kinds) (names map[string]bool, all bool) {
	names = map[string]bool{}
	note := func(a, b *Kinds) {
		if a == nil {
			return
		}
		for name, list := range a.named {
			if b == nil || !slices.Equal(list, b.named[name]) {
				names[name] = true
			}
		}
	}
	note(k, next)
	note(next, k)
	if k != nil && next != nil && !slices.Equal(k.scoped, next.scoped) {
		names[ClusterScoped] = true
	}
	return names, k == nil || next == nil || !maps.Equal(k.closed, next.closed)
}
