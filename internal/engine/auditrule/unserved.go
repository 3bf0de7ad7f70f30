package auditrule

import (
	"fmt"
	"slices"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// ServedResource is a resource, or a subresource, that is served.
type ServedResource struct {
	Group, Resource, Subresource string
	Namespaced                   bool
}

// Unserved is a place in a class that selects no served resource.
type Unserved struct {
	// Path is its path: field names and positions.
	Path    []any
	Message string
}

// FindUnserved lists the places in a class that select no served resource. If nothing is known to be served, it lists
// nothing.
func FindUnserved(class *v1alpha1.AuditClass, served []ServedResource) (all []Unserved) {
	if len(served) == 0 {
		return nil
	}
	for i := range class.Spec.Rules {
		for j := range class.Spec.Rules[i].GroupResourceSelectors {
			s := &class.Spec.Rules[i].GroupResourceSelectors[j]
			path := []any{"spec", "rules", i, "groupResourceSelectors", j}
			if len(s.Resources) == 0 && !serves(served, s, wildcard, wildcard) {
				all = append(all, Unserved{append(path, "group"), fmt.Sprintf("nothing is served in the API group %q", s.Group)})
			}
			for k := range s.Resources {
				all = append(all, unservedIn(served, s, k, append(slices.Clone(path), "resources", k))...)
			}
		}
	}
	return all
}

func unservedIn(served []ServedResource, s *v1alpha1.GroupResourceSelector, k int, path []any) (all []Unserved) {
	r := &s.Resources[k]
	anywhere := *s
	anywhere.Scope = v1alpha1.ScopeAny
	name := resourceName(s.Group, r.Kind)
	switch {
	case !serves(served, &anywhere, r.Kind, wildcard):
		return []Unserved{{append(path, "kind"), fmt.Sprintf("no resource %s is served", name)}}
	case !serves(served, s, r.Kind, wildcard):
		return []Unserved{{append(path, "kind"), fmt.Sprintf("%s belongs to no namespace, and scope: Namespaced selects nothing of it", name)}}
	}
	for n, sub := range r.Subresources {
		if !serves(served, s, r.Kind, sub) {
			all = append(all, Unserved{append(slices.Clone(path), "subresources", n), fmt.Sprintf("no subresource %s of %s is served", sub, name)})
		}
	}
	return all
}

// serves reports whether the scope of a selector has a served resource. Requests for a namespace are in it.
func serves(served []ServedResource, s *v1alpha1.GroupResourceSelector, resource, subresource string) bool {
	return slices.ContainsFunc(served, func(r ServedResource) bool {
		return (s.Group == wildcard || s.Group == r.Group) && (resource == wildcard || resource == r.Resource) &&
			(subresource == wildcard || subresource == r.Subresource) &&
			(s.Scope != v1alpha1.ScopeNamespaced || r.Namespaced || r.Group == "" && r.Resource == "namespaces")
	})
}

func resourceName(group, resource string) string {
	if group == "" || group == wildcard {
		return resource
	}
	return resource + "." + group
}
