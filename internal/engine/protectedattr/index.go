package protectedattr

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Protection is one ProtectedAttribute or ClusterProtectedAttribute.
type Protection struct {
	// Name of the object.
	Name string
	// Namespace of a ProtectedAttribute; empty for a ClusterProtectedAttribute.
	Namespace string
	// Attribute is Label or Annotation. Any other value, as in an object that cannot be read, means both.
	Attribute Attribute
	// Key is the name of the label or annotation, or domain/* for every key of a domain. Without a key, as in an object
	// that cannot be read, it is not known what is protected: then everything is, except from callers that
	// Request.Everywhere exempts (SV-8).
	Key string
	// Values that are protected; none means every value.
	Values []string
	// Closed protects the values that are not listed, too: no member of this protection may set them (PA-14).
	Closed bool
	// Resources limits the protection to resources, each a plural or a kind as in a deny rule; none means all (PA-15).
	Resources []string
	// Role is the role whose members may set, replace and remove the values.
	Role Role
	// ObjectOnly does not protect the metadata in templates.
	ObjectOnly bool
}

// Config is everything an Index is compiled from.
type Config struct {
	Protections []Protection
	// ExemptUsers are identities, beyond the built-in ones of PA-6, that copy what was already admitted.
	ExemptUsers []string
	// ExemptGroups are groups of such identities.
	ExemptGroups []string
	// Master is the namespace whose Policy roles can be named everywhere.
	Master string
}

// named returns the role of a protection. A Policy role of a third namespace has no members here.
func (c *Config) named(p *Protection) Role {
	r := p.Role
	if r.Kind == KindPolicyRole && (r.Namespace == "" || r.Namespace != c.Master && r.Namespace != p.Namespace) {
		r.Kind = "unreachable " + r.Kind
	}
	return r
}

// Reachable returns the role of a protection, and whether it can have members.
func Reachable(c *Config, p *Protection) (Role, bool) {
	r := c.named(p)
	return r, r.resolvable()
}

// Exempt returns the users and groups to which no protection applies, in addition to system:masters and nodes that
// write themselves.
func Exempt(c *Config) (users, groups []string) {
	e := newExemptions(c.ExemptUsers, c.ExemptGroups)
	return slices.Sorted(maps.Keys(e.users)), slices.Sorted(maps.Keys(e.groups))
}

// Index answers for one snapshot. It never changes and is safe for concurrent use.
type Index struct {
	rules   [2]keyset // by Attribute
	guarded map[Role]guard
	exempt  exemptions
	layouts layouts
	size    int
}

// guard records where bindings to a role are guarded (PA-12).
type guard struct {
	everywhere bool
	namespaces map[string]bool
}

// New compiles protections. Their order does not matter. The error lists those that do not say what they protect; the
// index is complete nevertheless, and protects more because of them, never less.
func New(c Config) (*Index, error) {
	ix := &Index{
		guarded: map[Role]guard{},
		exempt:  newExemptions(c.ExemptUsers, c.ExemptGroups),
	}
	var bad []Protection
	all := sorted(c.Protections)
	for i := range all {
		all[i].Role = c.named(&all[i])
	}
	for _, p := range all {
		if p.Key == "" || p.Attribute > Annotation {
			bad = append(bad, p)
		}
		for _, kind := range p.attributes() {
			if domainOf(p.Key) == "" {
				ix.add(p, ix.rules[kind].ensure(p.Key))
			}
		}
		ix.size++
	}
	// A protection for a domain applies to each of its keys that has a rule, and to all keys without one (PA-15).
	for _, p := range all {
		if domain := domainOf(p.Key); domain != "" {
			for _, kind := range p.attributes() {
				for _, r := range ix.rules[kind].domain(domain) {
					ix.add(p, r)
				}
			}
		}
	}
	if len(bad) > 0 {
		return ix, fmt.Errorf("%d protected attributes do not say which label or annotation they protect, and protect all that they may mean, the first is %s/%s: attributeKind must be Label or Annotation and attributeName must be set",
			len(bad), bad[0].Namespace, bad[0].Name)
	}
	return ix, nil
}

// sorted makes the order of refusals and conditions independent of how a cache listed the objects.
func sorted(in []Protection) []Protection {
	out := slices.Clone(in)
	slices.SortStableFunc(out, func(a, b Protection) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// attributes returns the kinds that a protection may be about.
func (p *Protection) attributes() []Attribute {
	if p.Attribute > Annotation {
		return []Attribute{Label, Annotation}
	}
	return []Attribute{p.Attribute}
}

func (ix *Index) add(p Protection, r *rule) {
	compiled := &protection{
		unreadable: p.Key == "",

		name: p.Name, cluster: p.Namespace == "", role: p.Role, templates: !p.ObjectOnly, values: slices.Clone(p.Values),
		closed: p.Closed && len(p.Values) > 0, resources: parsed(p.Resources),
	}
	if compiled.cluster {
		r.cluster.add(compiled)
	} else {
		if r.namespaces == nil {
			r.namespaces = map[string]*level{}
		}
		l := r.namespaces[p.Namespace]
		if l == nil {
			l = &level{}
			r.namespaces[p.Namespace] = l
		}
		l.add(compiled)
	}
	ix.guardRole(p.Role, p.Namespace)
}

func (ix *Index) guardRole(role Role, namespace string) {
	g := ix.guarded[role]
	if namespace == "" {
		g.everywhere = true
	} else {
		if g.namespaces == nil {
			g.namespaces = map[string]bool{}
		}
		g.namespaces[namespace] = true
	}
	ix.guarded[role] = g
}

// Len is the number of protections in force. A nil index has none.
func (ix *Index) Len() int {
	if ix == nil {
		return 0
	}
	return ix.size
}

// Touches reports whether any of these labels and annotations is protected somewhere.
func (ix *Index) Touches(labels, annotations map[string]string) bool {
	if ix.Len() == 0 {
		return false
	}
	for kind, keys := range [...]map[string]string{Label: labels, Annotation: annotations} {
		for key := range keys {
			if ix.rules[kind].every != nil || ix.rules[kind].get(key) != nil {
				return true
			}
		}
	}
	return false
}

// GuardsRole reports whether binding a user to role would let them set a protected attribute, which means that holding
// the role's rules is not enough to create the binding (PA-12). bindingNamespace is that of the RoleBinding, or empty
// for a ClusterRoleBinding, which applies to every namespace. A RoleBinding in one namespace does not create members in
// another, so a ProtectedAttribute never blocks bindings elsewhere.
func (ix *Index) GuardsRole(role Role, bindingNamespace string) bool {
	if ix == nil {
		return false
	}
	g, ok := ix.guarded[role]
	if !ok {
		return false
	}
	return g.everywhere || bindingNamespace == "" || g.namespaces[bindingNamespace]
}
