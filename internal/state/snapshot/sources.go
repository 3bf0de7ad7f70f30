package snapshot

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Sources say what is served. Each counts only for itself: a later one cannot change what an earlier one has said
// (SV-8).
type Sources struct {
	// Local is what this process itself serves, with the versions of each group in order of preference. Nothing else
	// counts in these groups.
	Local []*metav1.APIResourceList
	// Reserved are further groups that are built-in, even if nothing is served in them at the moment.
	Reserved []string
	// Custom is what it serves because of custom resource definitions, see CustomLists.
	Custom []*metav1.APIResourceList
	// Selectable are the fields by which these can be listed, see SelectableFields.
	Selectable map[schema.GroupVersionResource][]expr.SelectableField
	// Converted are the ones whose versions a webhook converts, see ConvertedResources.
	Converted map[schema.GroupResource]bool
	// Shapes are those of each of them, see ShapesOf.
	Shapes map[schema.GroupResource]Shapes
	// Remote is what other servers report, each about the group version that it was asked for.
	Remote []*metav1.APIResourceList
}

// Served combines the sources.
func (from Sources) Served() *Served {
	s := &Served{own: map[schema.GroupResource]string{}, namespaced: map[schema.GroupResource]bool{}, versions: map[schema.GroupKind]string{}, selectable: from.Selectable, converted: from.Converted, shapes: from.Shapes, differing: map[schema.GroupResource]Shapes{}}
	for resource, shapes := range from.Shapes {
		if shapes.differ() {
			s.differing[resource] = shapes
		}
	}
	var all []ruleset.Served
	for i, list := range from.lists() {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			all = s.take(all, gv, list, i < len(from.Local))
		}
	}
	s.kinds = ruleset.NewKinds(all, from.Reserved...).Scoped(s.clusterScoped)
	return s
}

// Resources returns the resources that can be listed.
func (from Sources) Resources() Resources { return NewResources(from.lists()) }

// lists returns what each source may say, the local ones first.
func (from Sources) lists() []*metav1.APIResourceList {
	lists := slices.Clone(from.Local)
	local, known := map[string]bool{}, map[schema.GroupResource]bool{}
	for _, list := range from.Local {
		local[groupOf(list)] = true
	}
	for _, list := range from.Custom {
		if group := groupOf(list); !local[group] {
			lists = append(lists, list)
			for _, r := range list.APIResources {
				known[schema.GroupResource{Group: group, Resource: r.Name}] = true
			}
		}
	}
	for _, list := range from.Remote {
		group := groupOf(list)
		if local[group] {
			continue
		}
		own := &metav1.APIResourceList{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			main, _, _ := strings.Cut(r.Name, "/")
			if !known[schema.GroupResource{Group: group, Resource: main}] {
				own.APIResources = append(own.APIResources, r)
			}
		}
		lists = append(lists, own)
	}
	return lists
}

func groupOf(list *metav1.APIResourceList) string {
	gv, _ := schema.ParseGroupVersion(list.GroupVersion) // unreadable ones are left out later
	return gv.Group
}

// take adds one list. Only this process may declare kinds of other groups, which subresources have: scale, eviction,
// token.
func (s *Served) take(all []ruleset.Served, gv schema.GroupVersion, list *metav1.APIResourceList, local bool) []ruleset.Served {
	for _, r := range list.APIResources {
		gvk := gv.WithKind(r.Kind)
		if r.Group != "" || r.Version != "" {
			gvk = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		}
		if _, known := s.versions[gvk.GroupKind()]; !known && (local || gvk.GroupVersion() == gv) {
			s.versions[gvk.GroupKind()] = gvk.Version
		}
		resource := schema.GroupResource{Group: gv.Group, Resource: r.Name}
		if _, known := s.own[resource]; !known {
			s.own[resource] = r.Kind
			if !strings.Contains(r.Name, "/") {
				all = append(all, ruleset.Served{Group: gv.Group, Resource: r.Name, Kind: r.Kind, Builtin: local})
				s.namespaced[resource] = r.Namespaced
				if !r.Namespaced && !local {
					s.clusterScoped = append(s.clusterScoped, resource)
				}
			}
		}
	}
	return all
}
