package readfilter

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Config is what the storage needs to decide reads.
type Config struct {
	Gate  *authorize.Gate
	Store *snapshot.Store
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
	// Followed promises that a watch informs Places about changes of namespaces. Without it, conditions that look at
	// them do not narrow lists.
	Followed bool
	// Served is told which resources are stored, and thereby decided, here.
	Served *discovery.Directory
	// RecheckAll also ends watches that were allowed without a condition once they are no longer allowed (RD-7).
	RecheckAll bool
}

// Places is told about changes of namespaces, after Namespaces knows them.
type Places interface {
	Added(name string)
	Changed(name string)
}

// Stores decorates the storage of a process.
type Stores struct {
	cfg      Config
	rechecks *rechecks
	memory   *memory
	places   *places
	targets  targets
}

// New returns the decorator.
func New(cfg Config) *Stores {
	RegisterMetrics()
	return &Stores{cfg: cfg, rechecks: newRechecks(cfg.Gate), memory: newMemory(), places: newPlaces(cfg.Namespaces)}
}

// Places returns what must be told about changes of namespaces.
func (s *Stores) Places() Places { return s.places }

// Converter converts objects to a version; nil for custom resources, which are converted by their name alone.
type Converter interface {
	ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// sharing converts shared objects for reading only: it need not copy them.
type sharing interface {
	UnsafeConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// unsafely converts without a copy, where that is possible.
type unsafely struct{ sharing }

// ConvertToVersion implements Converter.
func (u unsafely) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return u.UnsafeConvertToVersion(in, target)
}

func shared(c Converter) Converter {
	if s, ok := c.(sharing); ok {
		return unsafely{s}
	}
	return c
}

// Decorate wraps the storage of every resource that the getter is asked for.
func (s *Stores) Decorate(inner generic.RESTOptionsGetter, convert Converter) generic.RESTOptionsGetter {
	return getter{inner, s, convert}
}

type getter struct {
	generic.RESTOptionsGetter
	stores  *Stores
	convert Converter
}

func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil {
		return opts, err
	}
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return made, destroy, err
		}
		if g.convert != nil { // custom resources come and go
			g.stores.cfg.Served.Keep(resource)
		}
		_, cached := made.(*cacher.CacheDelegator)
		own := &store{Interface: made, stores: g.stores, resource: resource, convert: g.convert, shared: shared(g.convert), keyOf: keyFunc, cached: cached}
		g.stores.targets.put(own, newFunc())
		return own, destroy, nil
	}
	return opts, nil
}
