package owners

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Decorate adds the index to the storage of every resource that the getter is asked for.
func (x *Index) Decorate(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return getter{inner, x}
}

type getter struct {
	generic.RESTOptionsGetter
	index *Index
}

func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil {
		return opts, err
	}
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s := &indexed{resource: resource, prefix: prefix, newList: newListFunc, owners: g.index.ownersOf(resource)}
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, s.indexers(indexers))
		if err != nil {
			return made, destroy, err
		}
		s.Interface = made
		g.index.add(s)
		return s, func() {
			g.index.remove(s)
			destroy()
		}, nil
	}
	return opts, nil
}

// indexers adds the index to those of the resource.
func (s *indexed) indexers(own *cache.Indexers) *cache.Indexers {
	all := cache.Indexers{}
	if own != nil {
		maps.Copy(all, *own)
	}
	all[storage.FieldIndex(field)] = func(object any) ([]string, error) {
		if o, ok := object.(runtime.Object); ok {
			s.owners.note(o)
		}
		return uidsOf(object)
	}
	return &all
}

func (x *Index) add(s *indexed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stores == nil {
		x.stores = map[schema.GroupResource][]*indexed{}
	}
	x.stores[s.resource] = append(x.stores[s.resource], s)
}

func (x *Index) remove(s *indexed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := slices.DeleteFunc(x.stores[s.resource], func(one *indexed) bool { return one == s })
	if x.stores[s.resource] = left; len(left) == 0 {
		delete(x.stores, s.resource)
	}
}

// ownersOf returns the kinds that all storages of a resource share: each may be written to.
func (x *Index) ownersOf(resource schema.GroupResource) *kinds {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owners == nil {
		x.owners = map[schema.GroupResource]*kinds{}
	}
	if x.owners[resource] == nil {
		x.owners[resource] = &kinds{}
	}
	return x.owners[resource]
}

// Create implements storage.Interface.
func (s *indexed) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s.owners.note(obj)
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate implements storage.Interface.
func (s *indexed) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	noted := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		output, ttl, err := try(input, meta)
		if err == nil {
			s.owners.note(output)
		}
		return output, ttl, err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, noted, cached)
}
