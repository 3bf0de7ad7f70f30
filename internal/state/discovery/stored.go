package discovery

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stored are the built-in resources that this process keeps in the generic store.
type stored struct {
	mu    sync.RWMutex
	known map[schema.GroupResource]bool
}

// Keep records that this process keeps a built-in resource in the generic store.
func (d *Directory) Keep(resource schema.GroupResource) {
	d.stored.mu.Lock()
	defer d.stored.mu.Unlock()
	if d.stored.known == nil {
		d.stored.known = map[schema.GroupResource]bool{}
	}
	d.stored.known[resource] = true
}

// Stored reports whether a resource comes from the generic store of this process. Custom resources of this process
// always do; they are not recorded because they come and go.
func (d *Directory) Stored(resource schema.GroupVersionResource) bool {
	d.stored.mu.RLock()
	known := d.stored.known[StoredAs(resource.GroupResource())]
	d.stored.mu.RUnlock()
	return known || d.Local(resource.Group, resource.Version) && d.Custom(resource.Group)
}

// StoredAs returns the resource as which a resource is stored. Only events have two groups.
func StoredAs(resource schema.GroupResource) schema.GroupResource {
	if resource == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
		return schema.GroupResource{Resource: "events"}
	}
	return resource
}
