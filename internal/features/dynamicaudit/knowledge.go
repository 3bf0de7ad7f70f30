package dynamicaudit

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// IsServed implements registry.AuditKnowledge.
func (n knowledge) IsServed(resource schema.GroupResource) bool {
	return n.k.Store.Current().Served.OwnKind(resource) != ""
}
