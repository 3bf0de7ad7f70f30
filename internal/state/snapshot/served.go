package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Served is what the server serves at one moment: which kind a resource has, and in which version conditions see it. It
// is immutable; a nil *Served knows nothing.
type Served struct {
	kinds    *ruleset.Kinds
	own      map[schema.GroupResource]string
	versions map[schema.GroupKind]string
	// selectable are the fields by which custom resources can be listed, in addition to the common ones.
	selectable map[schema.GroupVersionResource][]expr.SelectableField
	// converted are the custom resources whose versions a webhook converts, so they may differ in anything.
	converted map[schema.GroupResource]bool
	// shapes are those of custom resources, and differing those of which a version may lack fields of another one.
	shapes, differing map[schema.GroupResource]Shapes
	// clusterScoped are the cluster-scoped resources of other servers.
	clusterScoped []schema.GroupResource
	// namespaced are all resources that belong to a namespace.
	namespaced map[schema.GroupResource]bool
}

// Namespaced reports whether a resource is known to belong to a namespace.
func (s *Served) Namespaced(gr schema.GroupResource) bool { return s != nil && s.namespaced[gr] }

// Selectable returns the fields by which a custom resource can be listed in a version.
func (s *Served) Selectable(gvr schema.GroupVersionResource) []expr.SelectableField {
	if s == nil {
		return nil
	}
	return s.selectable[gvr]
}

// Converted reports whether a webhook converts the versions of a resource.
func (s *Served) Converted(gr schema.GroupResource) bool { return s != nil && s.converted[gr] }

func isSubresource(name string) bool {
	for i := range len(name) {
		if name[i] == '/' {
			return true
		}
	}
	return false
}

// Kinds returns the mapping with which rules are compiled.
func (s *Served) Kinds() *ruleset.Kinds {
	if s == nil {
		return nil
	}
	return s.kinds
}

// PreferredVersion returns the version in which conditions see a kind, or "" if it is not served.
func (s *Served) PreferredVersion(gk schema.GroupKind) string {
	if s == nil {
		return ""
	}
	return s.versions[gk]
}

// Seen returns a kind in the version in which a condition sees it, whatever version the request uses: the one for which
// the condition is written or, if apiVersion is empty, the preferred one.
func (s *Served) Seen(kind schema.GroupVersionKind, apiVersion string) (schema.GroupVersionKind, error) {
	kind.Version = apiVersion
	if kind.Version == "" {
		if kind.Version = s.PreferredVersion(kind.GroupKind()); kind.Version == "" {
			return kind, fmt.Errorf("%s is not known to be served: the version in which conditions see it is unknown", kind.GroupKind())
		}
	}
	return kind, nil
}

// OwnKind returns the kind of a resource itself, or "" if it is not served.
func (s *Served) OwnKind(gr schema.GroupResource) string {
	if s == nil {
		return ""
	}
	return s.own[gr]
}

// Resources returns the served resources, and the subresources, whose names have a slash.
func (s *Served) Resources() []schema.GroupResource {
	if s == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.own))
}

// HasFields reports whether the body of a request to a resource, or to one of its subresources, is the stored object,
// or stands for fields of it, like a Scale and a Binding.
func (s *Served) HasFields(gr schema.GroupResource, subresource string) bool {
	own := s.OwnKind(gr)
	if own == "" || subresource == "" {
		return own != ""
	}
	kind := s.OwnKind(schema.GroupResource{Group: gr.Group, Resource: gr.Resource + "/" + subresource})
	switch {
	case kind == "":
		return false
	case subresource == "scale", subresource == "binding" && gr == schema.GroupResource{Resource: "pods"}:
		return true
	}
	return kind == own
}
