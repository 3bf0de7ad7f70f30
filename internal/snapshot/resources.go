package snapshot

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource whose objects can be listed, in the version that its group prefers.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Deletable tells that somebody, and so the garbage collector too, can delete its objects one by one.
	Deletable bool
}

// resourcesOf reads discovery, in which the preferred version of a group comes first.
func resourcesOf(lists []*metav1.APIResourceList) []Resource {
	var all []Resource
	seen := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			gvr := gv.WithResource(r.Name)
			if isSubresource(r.Name) || seen[gvr.GroupResource()] || !slices.Contains(r.Verbs, "list") {
				continue
			}
			seen[gvr.GroupResource()] = true
			all = append(all, Resource{GroupVersionResource: gvr, Kind: r.Kind, Namespaced: r.Namespaced, Deletable: slices.Contains(r.Verbs, "delete")})
		}
	}
	return all
}

// Resources lists what is served and can be listed.
func (s *Served) Resources() []Resource {
	if s == nil {
		return nil
	}
	return s.resources
}

// ResourceOf finds the resource that has a kind.
func (s *Served) ResourceOf(gk schema.GroupKind) (Resource, bool) {
	for _, r := range s.Resources() {
		if r.Kind == gk.Kind && r.Group == gk.Group {
			return r, true
		}
	}
	return Resource{}, false
}
