package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusStorage is the REST storage of the status subresource of a stored kind.
type statusStorage struct {
	store *genericregistry.Store
}

var (
	_ rest.Patcher             = &statusStorage{}
	_ rest.ResetFieldsStrategy = &statusStorage{}
)

// status opens the status subresource. It shares the store with the main resource.
func (s *storage[T]) status() *statusStorage {
	store := *s.Store
	strategy := statusStrategy[T]{newStrategy(s.kind)}
	store.UpdateStrategy = strategy
	store.ResetFieldsStrategy = strategy
	return &statusStorage{store: &store}
}

// New returns an empty object.
func (s *statusStorage) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the main resource owns the store.
func (*statusStorage) Destroy() {}

// Get reads the object.
func (s *statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update changes the status. It never creates the object, not even for an apply.
func (s *statusStorage) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, blamed{objInfo}, createValidation, updateValidation, false, options)
}

// GetResetFields tells server-side apply that through this resource managers can own only the status.
func (s *statusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// ConvertToTable shows the object as the main resource does.
func (s *statusStorage) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, tableOptions)
}
