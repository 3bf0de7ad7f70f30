package freshness

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Around wraps the storage of a policy resource, which is stored as config says.
type Around func(resource schema.GroupResource, config *storagebackend.ConfigForResource, inner storage.Interface) storage.Interface

// Decorate wraps the storage of the resources that policy is made of.
func Decorate(inner generic.RESTOptionsGetter, around ...Around) generic.RESTOptionsGetter {
	return getter{inner, around}
}

type getter struct {
	generic.RESTOptionsGetter
	around []Around
}

func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil || !revision.IsSource(resource.String()) {
		return opts, err
	}
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return made, destroy, err
		}
		for _, wrap := range g.around {
			made = wrap(resource, config, made)
		}
		return made, destroy, nil
	}
	return opts, nil
}

// Noted records, in the State of a request, the revisions of what it writes and deletes.
func Noted(resource schema.GroupResource, _ *storagebackend.ConfigForResource, inner storage.Interface) storage.Interface {
	return &noted{Interface: inner, source: resource.String()}
}

type noted struct {
	storage.Interface
	source string
}

// Create implements storage.Interface.
func (s *noted) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	return s.note(ctx, out, err)
}

// Delete implements storage.Interface. What it returns has the revision of the deletion.
func (s *noted) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	return s.note(ctx, out, err)
}

// GuaranteedUpdate implements storage.Interface.
func (s *noted) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, try, cached)
	return s.note(ctx, destination, err)
}

func (s *noted) note(ctx context.Context, obj runtime.Object, err error) error {
	holder := requestctx.From(ctx)
	if err != nil || holder == nil {
		return err
	}
	if m, err := meta.Accessor(obj); err == nil {
		if at, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil {
			holder.Wrote(revision.Entry{Source: s.source, At: at})
		}
	}
	return nil
}
