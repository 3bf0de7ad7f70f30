package fieldfilter

import (
	"context"
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// Decorate wraps the storage of every resource that the getter is asked for. Convert is nil for custom resources. It
// wraps everything that decides by the content of objects.
func (f *Filters) Decorate(inner generic.RESTOptionsGetter, convert readfilter.Converter) generic.RESTOptionsGetter {
	g := getter{RESTOptionsGetter: inner, filters: f}
	if s, ok := convert.(*runtime.Scheme); ok {
		g.scheme = &scheme{s, serializer.NewCodecFactory(s, serializer.WithSerializer(cbor.NewSerializerInfo))}
	}
	return g
}

type getter struct {
	generic.RESTOptionsGetter
	filters *Filters
	scheme  *scheme
}

func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil {
		return opts, err
	}
	if g.scheme != nil {
		g.filters.mu.Lock()
		g.filters.schemes[resource] = g.scheme
		g.filters.mu.Unlock()
	}
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return made, destroy, err
		}
		return &store{Interface: made, filters: g.filters, resource: resource, scheme: g.scheme}, destroy, nil
	}
	return opts, nil
}

// store shows readers what they may see. A write reads whole objects: admission decides by them.
type store struct {
	storage.Interface
	filters  *Filters
	resource schema.GroupResource
	scheme   *scheme
}

// sight returns the sight of a read of this resource; nil if nothing is hidden from its caller, or if a handler looks
// up another resource.
func (s *store) sight(ctx context.Context) *sight {
	found := s.filters.sightOf(ctx)
	if found == nil || !verbs.IsRead(found.attrs.GetVerb()) || discovery.StoredAs(resourceOf(found.attrs)) != s.resource {
		return nil
	}
	return found
}

var errNoObject = errors.New("what was read is not an object")

var errUnshown = errors.New("fields of it are hidden from you, and it could not be shown without them")

// unshown hides why an object cannot be shown: the reason may quote it.
func (s *store) unshown(err error) error {
	klog.ErrorS(err, "An object cannot be shown without its hidden fields", "resource", s.resource)
	return apierrors.NewInternalError(errUnshown)
}

// Get implements storage.Interface.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	err := s.Interface.Get(ctx, key, opts, out)
	seen := s.sight(ctx)
	if err != nil || seen == nil {
		return err
	}
	if m, err := meta.Accessor(out); err != nil || m.GetResourceVersion() == "" {
		return err // it was not found, and that is ignored
	}
	if err := s.replace(seen, reflect.ValueOf(out).Elem(), nil); err != nil {
		return errors.Join(runtime.SetZeroValue(out), s.unshown(err))
	}
	return nil
}

// replace replaces an object in place by what is shown of it.
func (s *store) replace(seen *sight, at reflect.Value, memo *hiddenfield.Memo) error {
	o, ok := at.Addr().Interface().(runtime.Object)
	if !ok {
		return errNoObject
	}
	shown, err := seen.show(o, s.scheme, memo)
	if err != nil {
		return err
	}
	at.Set(reflect.ValueOf(shown).Elem())
	return nil
}

// GetList implements storage.Interface.
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, opts, list)
	seen := s.sight(ctx)
	if err != nil || seen == nil {
		return err
	}
	if err := s.replaceItems(seen, list); err != nil {
		return errors.Join(runtime.SetZeroValue(list), s.unshown(err))
	}
	return nil
}

func (s *store) replaceItems(seen *sight, list runtime.Object) error {
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	memo := &hiddenfield.Memo{}
	if s.scheme != nil && len(seen.open) == 0 {
		return s.hideItems(seen, list, items, memo)
	}
	for i := range items.Len() {
		if err := s.replace(seen, items.Index(i), memo); err != nil {
			return err
		}
	}
	return nil
}

// hideItems hides the same fields in all items of a list. The list is converted as a whole, once each way.
func (s *store) hideItems(seen *sight, list runtime.Object, items reflect.Value, memo *hiddenfield.Memo) error {
	versioned, back, err := seen.declared(list, s.scheme)
	if err != nil {
		return err
	}
	within, err := itemsOf(versioned)
	if err != nil {
		return err
	}
	for i := range within.Len() {
		o, ok := within.Index(i).Addr().Interface().(runtime.Object)
		if !ok {
			return errNoObject
		}
		if err := seen.fields.Hide(o, memo); err != nil {
			return err
		}
	}
	shown, err := back(versioned)
	if err != nil {
		return err
	}
	hidden, err := itemsOf(shown)
	if err != nil {
		return err
	}
	items.Set(hidden)
	return nil
}

// itemsOf returns the slice of items of a list.
func itemsOf(list runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	return conversion.EnforcePtr(ptr)
}

// Watch implements storage.Interface. A watch ends when what is hidden from its caller changes.
func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil || holder.Attributes() == nil {
		return s.Interface.Watch(ctx, key, opts)
	}
	attrs := holder.Attributes()
	if discovery.StoredAs(resourceOf(attrs)) != s.resource || authorize.SeesAlways(ctx, attrs) {
		return s.Interface.Watch(ctx, key, opts)
	}
	resource := fieldperm.Resource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
	if len(holder.Snapshot.Fields.Hidden(resource)) == 0 {
		ctx, leave := s.filters.watches.enter(ctx, s.filters, resource)
		w, err := s.Interface.Watch(ctx, key, opts)
		if err != nil {
			leave()
			return nil, err
		}
		return &watching{Interface: w, leave: leave}, nil
	}
	seen := s.sight(ctx)
	if seen == nil {
		seen = &sight{ctx: ctx, filters: s.filters, holder: holder, attrs: attrs}
	}
	w, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return s.filters.sights.Follow(ctx, w, s.seeing(ctx, seen)), nil
}
