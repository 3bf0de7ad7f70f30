package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// object is a pointer to an API type.
type object interface {
	runtime.Object
	metav1.Object
	comparable
}

// kind says all that is particular to one stored kind. The rest is the same for all of them.
type kind[T object] struct {
	version    schema.GroupVersion
	plural     string
	singular   string
	shortNames []string
	namespaced bool

	newObject func() T
	newList   func() runtime.Object

	// columns are the columns between name and age.
	columns []column[T]

	// prepare sets what the server owns. old is nil on create.
	prepare func(obj, old T)
	// turn waits for the caller's turn to have an object checked, if that takes long; nil checks it at once. Who is
	// given no turn gets the error, which validate could not return.
	turn func(ctx context.Context, obj, old T) (done func(), err error)
	// validate checks everything. old is nil on create.
	validate func(ctx context.Context, obj, old T) field.ErrorList
	// warn says what is accepted but worth a word; optional.
	warn func(ctx context.Context, obj, old T) []string
	// ends says what a deletion takes away; optional.
	ends func(obj T) string
	// sameContent says whether two versions differ in metadata and status at most.
	sameContent func(a, b T) bool

	// contentFields are the top-level fields that a status update leaves alone.
	contentFields []string
	// copyContent copies these fields.
	copyContent func(to, from T)
	// copyStatus copies the status. It is nil for a kind that has none.
	copyStatus func(to, from T)
	// validateStatus checks a new status; optional.
	validateStatus func(obj T) field.ErrorList
}

func (k *kind[T]) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.version.Group, Resource: k.plural}
}

// storage is the REST storage of a stored kind.
type storage[T object] struct {
	*genericregistry.Store
	kind *kind[T]
}

// Delete removes an object, and says what goes with it.
func (s *storage[T]) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return s.Store.Delete(ctx, name, s.ending(validation), options)
}

// DeleteCollection does that for many.
func (s *storage[T]) DeleteCollection(ctx context.Context, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return s.Store.DeleteCollection(ctx, s.ending(validation), options, list)
}

func (s *storage[T]) ending(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	if s.kind.ends == nil {
		return validation
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		warning.AddWarning(ctx, "", s.kind.ends(cast[T](obj)))
		return nil
	}
}

// newStorage opens the store of a kind.
func newStorage[T object](k *kind[T], opts generic.RESTOptionsGetter) (*storage[T], error) {
	strategy := newStrategy(k)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return k.newObject() },
		NewListFunc:               k.newList,
		DefaultQualifiedResource:  k.resource(),
		SingularQualifiedResource: schema.GroupResource{Group: k.version.Group, Resource: k.singular},
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            table[T]{columns: k.columns, resource: k.resource()},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts}); err != nil {
		return nil, err
	}
	return &storage[T]{Store: store, kind: k}, nil
}

var (
	_ rest.StandardStorage    = &storage[*noObject]{}
	_ rest.ShortNamesProvider = &storage[*noObject]{}
	_ rest.CategoriesProvider = &storage[*noObject]{}
)

// noObject stands for any kind in the assertions of this package.
type noObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (*noObject) DeepCopyObject() runtime.Object { return nil }

// Update changes the object.
func (s *storage[T]) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.Store.Update(ctx, name, blamed{objInfo}, createValidation, updateValidation, forceAllowCreate, options)
}

// ShortNames are what a user can type instead of the plural.
func (s *storage[T]) ShortNames() []string { return s.kind.shortNames }

// Categories lets `kubectl get proviso` show all of it.
func (*storage[T]) Categories() []string { return categories() }

func categories() []string { return []string{"proviso"} }

// GetSingularName is the singular of the resource.
func (s *storage[T]) GetSingularName() string { return s.kind.singular }
