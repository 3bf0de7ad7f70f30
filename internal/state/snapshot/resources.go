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
	// Deletable reports that users, and so the garbage collector, can delete its objects one by one.
	Deletable bool
	// Unlisted: objects may be stored, but at the moment they cannot be listed.
	Unlisted bool
}

// Resources are the served resources that can be listed, and the stored ones that are not served now.
type Resources []Resource

// NewResources reads discovery, in which the preferred version of a group comes first.
func NewResources(lists []*metav1.APIResourceList) Resources {
	var all Resources
	seen := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			gvr := gv.WithResource(r.Name)
			dormant := slices.Equal(r.Verbs, unlisted)
			if isSubresource(r.Name) || seen[gvr.GroupResource()] || !dormant && !slices.Contains(r.Verbs, "list") {
				continue
			}
			seen[gvr.GroupResource()] = true
			all = append(all, Resource{GroupVersionResource: gvr, Kind: r.Kind, Namespaced: r.Namespaced, Deletable: slices.Contains(r.Verbs, "delete"), Unlisted: dormant})
		}
	}
	return all
}

// Of finds the resource that has a kind.
func (rs Resources) Of(gk schema.GroupKind) (Resource, bool) {
	for _, r := range rs {
		if r.Kind == gk.Kind && r.Group == gk.Group {
			return r, true
		}
	}
	return Resource{}, false
}
