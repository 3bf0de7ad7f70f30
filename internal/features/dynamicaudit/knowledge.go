package dynamicaudit

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
)

// knowledge is what the registry asks about sinks and classes that are written.
type knowledge struct{ k *feature.Kernel }

// Hiding implements registry.AuditKnowledge.
func (n knowledge) Hiding(permission string) []schema.GroupResource {
	table := n.k.Store.Current().Fields
	var all []schema.GroupResource
	for _, r := range table.HidingResources() {
		hides := func(h fieldperm.Hidden) bool { return h.Permission == permission }
		if !slices.ContainsFunc(table.Hidden(r), hides) {
			continue
		}
		if r.All() {
			return nil
		}
		all = append(all, schema.GroupResource{Group: r.Group, Resource: r.Resource})
	}
	return all
}

// IsDeclared implements registry.AuditKnowledge.
func (n knowledge) IsDeclared(permission string) bool {
	_, declared := n.k.Store.Current().Fields.Named(permission, fieldperm.Resource{}, "")
	return declared
}

// Unserved implements registry.AuditKnowledge.
func (n knowledge) Unserved(class *auditv1alpha1.AuditClass) []auditrule.Unserved {
	snap := n.k.Store.Current()
	if !snap.Synced {
		return nil
	}
	var served []auditrule.ServedResource
	for _, gr := range snap.Served.Resources() {
		resource, subresource, _ := strings.Cut(gr.Resource, "/")
		served = append(served, auditrule.ServedResource{Group: gr.Group, Resource: resource, Subresource: subresource,
			Namespaced: snap.Served.Namespaced(schema.GroupResource{Group: gr.Group, Resource: resource})})
	}
	return auditrule.FindUnserved(class, served)
}
