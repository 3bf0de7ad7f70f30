package policycodec

import (
	"context"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	kubestorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// FieldSupport knows which fields the replicas of this server know.
type FieldSupport interface {
	// NeedFields returns an error if a replica does not know one of the fields. Otherwise a replica that starts later
	// does not serve unless it knows them.
	NeedFields(ctx context.Context, fields []string) error
}

// SupportedStorage stores no field that a replica does not know: that replica would count it as a deny.
func SupportedStorage(inner generic.RESTOptionsGetter, support FieldSupport) generic.RESTOptionsGetter {
	return supportedOptions{inner, support}
}

type supportedOptions struct {
	generic.RESTOptionsGetter
	support FieldSupport
}

func (o supportedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || opts.Decorator == nil {
		return opts, err
	}
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs kubestorage.AttrFunc, trigger kubestorage.IndexerFuncs, indexers *cache.Indexers) (kubestorage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return made, destroy, err
		}
		return &supportedStorage{made, resource, o.support, FieldsInUse}, destroy, nil
	}
	return opts, nil
}

type supportedStorage struct {
	kubestorage.Interface
	resource schema.GroupResource
	support  FieldSupport
	fields   func(runtime.Object) []string
}

// Create implements storage.Interface.
func (s *supportedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.check(ctx, key, obj); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate implements storage.Interface.
func (s *supportedStorage) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *kubestorage.Preconditions, try kubestorage.UpdateFunc, cached runtime.Object) error {
	checked := func(input runtime.Object, meta kubestorage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := try(input, meta)
		if err == nil {
			err = s.check(ctx, key, obj)
		}
		return obj, ttl, err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, checked, cached)
}

func (s *supportedStorage) check(ctx context.Context, key string, obj runtime.Object) error {
	used := s.fields(obj)
	if len(used) == 0 {
		return nil
	}
	if err := s.support.NeedFields(ctx, used); err != nil {
		return apierrors.NewConflict(s.resource, path.Base(key), err)
	}
	return nil
}
