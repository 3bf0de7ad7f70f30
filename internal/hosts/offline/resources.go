package offline

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/state/snapshot"
)

// Resource is something that a server with these files would serve, in the version in which conditions see it.
type Resource struct {
	GroupVersion schema.GroupVersion
	// Name is the plural, with a subresource if it is one.
	Name       string
	Namespaced bool
	// Body is the kind of the request body, and Own is true if that is the resource's own kind.
	Body schema.GroupVersionKind
	Own  bool
}

// Resources are all that would be served, subresources included.
func (h *Host) Resources() (all []Resource) {
	served := h.Snapshot().Served
	for _, list := range append(slices.Clone(h.local), h.remote...) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		namespaced := map[string]bool{}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				namespaced[r.Name] = r.Namespaced
			}
		}
		for _, r := range list.APIResources {
			resource, _, _ := strings.Cut(r.Name, "/")
			own := served.OwnKind(gv.WithResource(resource).GroupResource())
			if served.PreferredVersion(schema.GroupKind{Group: gv.Group, Kind: own}) != gv.Version {
				continue
			}
			body := gv.WithKind(r.Kind)
			if r.Group != "" || r.Version != "" {
				body = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
			}
			all = append(all, Resource{GroupVersion: gv, Name: r.Name, Namespaced: namespaced[resource], Body: body, Own: r.Kind == own})
		}
	}
	definitions, err := h.files.Objects(snapshot.Definitions)
	if err != nil || definitions == nil {
		return all
	}
	for _, obj := range definitions.GetIndexer().List() {
		d, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		version := served.PreferredVersion(schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind})
		gv := schema.GroupVersion{Group: d.Spec.Group, Version: version}
		for _, name := range []string{d.Spec.Names.Plural, d.Spec.Names.Plural + "/status"} {
			all = append(all, Resource{GroupVersion: gv, Name: name, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped, Body: gv.WithKind(d.Spec.Names.Kind), Own: true})
		}
	}
	return all
}
