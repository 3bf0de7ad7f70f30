package errorfilter

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// Decorate wraps the storage of every resource that the getter is asked for. Convert is nil for custom resources.
func (f *Filter) Decorate(inner generic.RESTOptionsGetter, convert readfilter.Converter) generic.RESTOptionsGetter {
	return getter{inner, f, convert}
}

type getter struct {
	generic.RESTOptionsGetter
	filter  *Filter
	convert readfilter.Converter
}

func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil {
		return opts, err
	}
	g.filter.convertsBy(resource, g.convert)
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return made, destroy, err
		}
		return &store{Interface: made, filter: g.filter, resource: resource}, destroy, nil
	}
	return opts, nil
}

func (f *Filter) convertsBy(resource schema.GroupResource, convert readfilter.Converter) {
	if convert == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.converters[resource] = convert
}

// converter is nil for custom resources.
func (f *Filter) converter(resource schema.GroupResource) readfilter.Converter {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.converters[discovery.StoredAs(resource)]
}

// store records the states that a write looks at while its response is held.
type store struct {
	storage.Interface
	filter   *Filter
	resource schema.GroupResource
}

// ledger returns the ledger of the request; nil if its response is not held, or if this is another resource that the
// handler looks up.
func (s *store) ledger(ctx context.Context) *requestctx.Ledger {
	l := requestctx.NotesOf(ctx).Ledger()
	if l == nil {
		return nil
	}
	attrs := requestctx.From(ctx).Attributes()
	if attrs == nil || discovery.StoredAs(resourceOf(attrs)) != s.resource {
		return nil
	}
	return l
}

// tries marks the dry run of a create.
type tries struct{}

// taken is the key of an object that a create found under its name.
type taken string

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	if storage.IsExist(err) {
		requestctx.NotesOf(ctx).Keep(taken(key), func() any { return true })
	}
	return err
}

// Get implements storage.Interface. A create that finds its name taken checks whether the object is being deleted, and
// says so only to callers who may see the object.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	err := s.Interface.Get(ctx, key, opts, out)
	switch notes := requestctx.NotesOf(ctx); {
	case err != nil:
	case notes.Kept(taken(key)):
		if !s.filter.maySee(ctx, requestctx.From(ctx), out) {
			return errors.Join(runtime.SetZeroValue(out), storage.NewKeyNotFoundError(key, 0))
		}
	case notes.Kept(tries{}):
		notes.Keep(taken(key), func() any { return true }) // a dry run does not come to Create
	}
	if l := s.ledger(ctx); l != nil {
		switch {
		case err == nil:
			l.Look(out.DeepCopyObject()) // its reader changes it
		case tells(err):
			l.Look(nil)
		}
	}
	return err
}

// GetList implements storage.Interface. The count of remaining items would reveal how many of them the caller may not
// see.
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, opts, list)
	l := s.ledger(ctx)
	if l == nil {
		return err
	}
	if err != nil {
		if tells(err) {
			l.Look(nil)
		}
		return err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	m.SetRemainingItemCount(nil)
	states, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	l.List(states)
	return nil
}

// GuaranteedUpdate implements storage.Interface.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	l := s.ledger(ctx)
	if l == nil {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, try, cached)
	}
	var failed error
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		l.Look(input.DeepCopyObject())
		out, ttl, err := try(input, res)
		failed = err
		return out, ttl, err
	}, cached)
	s.own(l, err, failed)
	return err
}

// Delete implements storage.Interface.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	l := s.ledger(ctx)
	if l == nil {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	}
	var failed error
	err := s.Interface.Delete(ctx, key, out, preconditions, func(ctx context.Context, state runtime.Object) error {
		l.Look(state.DeepCopyObject())
		failed = validate(ctx, state)
		return failed
	}, cached, opts)
	s.own(l, err, failed)
	return err
}

// own records an error that comes from the storage and not from the last attempt: it can be about a state that was not
// tried.
func (s *store) own(l *requestctx.Ledger, err, failed error) {
	if err != nil && (failed == nil || !errors.Is(err, failed)) && tells(err) {
		l.Look(nil)
	}
}

// tells reports whether an error of the storage may be about the content of an object.
func tells(err error) bool { return !storage.IsNotFound(err) && !readfilter.AboutRequest(err) }
