package game

import (
	"slices"
	"strings"
)

// Resource is a resource that the server serves without anybody's doing.
type Resource struct {
	Group, Version, Plural, Kind string
	Namespaced                   bool
	Verbs                        []string
	Subs                         []string
}

// String is plural.group.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// Catalog is what is served.
type Catalog []Resource

// Find takes plural.group, with or without a subresource. What it does not know is a custom resource, of which the kind
// is the plural as it was declared.
func (c Catalog) Find(name string) (Resource, bool) {
	name, _, _ = strings.Cut(name, "/")
	for _, r := range c {
		if r.String() == name {
			return r, true
		}
	}
	plural, group, _ := strings.Cut(name, ".")
	return Resource{Group: group, Version: "v1", Plural: plural, Kind: CustomKind(plural), Namespaced: true}, false
}

// CustomKind is the kind that a custom resource of the hunt has.
func CustomKind(plural string) string { return "X" + plural }

// guarded groups are those that a name without a group never means in an allow (PO-2, PO-10).
var guarded = []string{"policy.proviso.dev", "access.proviso.dev", "auditregistration.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io"}

// builtIn reports whether a name without a group is that of a built-in resource, as a plural or as a kind.
func (c Catalog) builtIn(name string) bool {
	return slices.ContainsFunc(c, func(r Resource) bool {
		return !slices.Contains(guarded, r.Group) && (r.Plural == name || strings.EqualFold(r.Kind, name))
	})
}

// split takes plural.group/sub apart.
func split(resource string) (plural, group, sub string) {
	resource, sub, _ = strings.Cut(resource, "/")
	plural, group, _ = strings.Cut(resource, ".")
	return plural, group, sub
}
