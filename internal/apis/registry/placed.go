package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kubestorage "k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/namespacegc"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/selfclient"
)

// placedStorage serves a stored kind whose objects restrict what can be done in their namespace. They belong to one
// namespace and not to its name: with the namespace they go last, when it is gone itself, and in a namespace of the
// same name they do not count (PO-20).
type placedStorage[C object] struct {
	*storage[C]
	places places
	// names are the entries of a container, which is deleted when it is empty, or with its namespace; nil for what has
	// none.
	names   func(C) []string
	entries string
}

// Get reads an object.
func (s *placedStorage[C]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.storage.Get(ctx, name, options)
	if err != nil || selfclient.IsServer(ctx) {
		return obj, err
	}
	switch hidden, err := s.places.hidden(ctx, cast[C](obj)); {
	case err != nil:
		return nil, err
	case hidden:
		return nil, notFound(s.kind.resource(), name)
	}
	return obj, nil
}

// List reads the objects of a namespace, or of all.
func (s *placedStorage[C]) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	list, err := s.storage.List(ctx, options)
	if err != nil || selfclient.IsServer(ctx) {
		return list, err
	}
	return list, withoutHidden[C](ctx, s.places, list)
}

// withoutHidden takes the hidden objects out of a list.
func withoutHidden[C object](ctx context.Context, p places, list runtime.Object) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	kept := items[:0]
	for _, item := range items {
		hidden, err := p.hidden(ctx, cast[C](item))
		if err != nil {
			return err
		}
		if !hidden {
			kept = append(kept, item)
		}
	}
	if len(kept) == len(items) {
		return nil
	}
	return meta.SetList(list, kept)
}

// Create stores an object that belongs to the namespace as it is now.
func (s *placedStorage[C]) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return createPlaced[C](ctx, s.places, s.Store, obj, validation, options)
}

// createPlaced replaces an object left over from an earlier namespace of the same name.
func createPlaced[C object](ctx context.Context, p places, store *genericregistry.Store, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	for attempt := 1; ; attempt++ {
		c := cast[C](obj.DeepCopyObject())
		if err := p.claim(ctx, store.DefaultQualifiedResource, c); err != nil {
			return nil, err
		}
		created, err := store.Create(ctx, c, validation, options)
		if !apierrors.IsAlreadyExists(err) || attempt == attempts {
			return created, err
		}
		old, getErr := store.Get(ctx, c.GetName(), &metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) {
			continue
		}
		if getErr != nil {
			return nil, err
		}
		if stale, staleErr := p.stale(ctx, cast[C](old)); staleErr != nil || !stale {
			return nil, err
		}
		if _, removeErr := remove(ctx, store, cast[C](old), rest.ValidateAllObjectFunc, false); removeErr != nil && !apierrors.IsNotFound(removeErr) {
			return nil, removeErr
		}
	}
}

// Update changes an object.
func (s *placedStorage[C]) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if _, err := s.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		if !apierrors.IsNotFound(err) || !forceAllowCreate {
			return nil, false, err
		}
		obj, err := blamed{objInfo}.UpdatedObject(ctx, s.New())
		if err != nil {
			return nil, false, err
		}
		if v := cast[C](obj).GetResourceVersion(); v != "" {
			return nil, false, apierrors.NewConflict(s.kind.resource(), name, fmt.Errorf("it no longer exists, and you expect its resource version %s", v))
		}
		rest.WipeObjectMetaSystemFields(cast[C](obj))
		created, err := s.Create(ctx, obj, createValidation, &metav1.CreateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
		return created, err == nil, err
	}
	return s.storage.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// Delete removes an object. A container has to be empty. In a namespace that is being deleted the object is released:
// it is no longer visible and grants nothing, but what it denies or protects stays in force until the namespace is
// gone. What belongs to a namespace that is gone is removed, whatever it holds.
func (s *placedStorage[C]) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if validation == nil {
		validation = rest.ValidateAllObjectFunc
	}
	obj, err := s.storage.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	c := cast[C](obj)
	if c.GetNamespace() != s.places.master {
		live, err := s.places.live(ctx, c.GetNamespace())
		if err != nil {
			return nil, false, err
		}
		dryRun := options != nil && dryrun.IsDryRun(options.DryRun)
		switch belongs := namespacegc.Belongs(c, live); {
		case (!belongs || live.Terminating) && !s.expected(c, options):
			return nil, false, apierrors.NewConflict(s.kind.resource(), name, fmt.Errorf("the preconditions of the deletion are not met"))
		case !belongs:
			removed, err := remove(ctx, s.Store, c, validation, dryRun)
			return removed, err == nil, err
		case live.Terminating:
			released, err := s.release(ctx, c, validation, dryRun)
			return released, false, err
		}
	}
	return s.storage.Delete(ctx, name, s.empty(validation), options)
}

func (s *placedStorage[C]) expected(c C, options *metav1.DeleteOptions) bool {
	if options == nil || options.Preconditions == nil {
		return true
	}
	p := options.Preconditions
	return (p.UID == nil || *p.UID == c.GetUID()) && (p.ResourceVersion == nil || *p.ResourceVersion == c.GetResourceVersion())
}

// release marks an object as deleted with its namespace.
func (s *placedStorage[C]) release(ctx context.Context, c C, validation rest.ValidateObjectFunc, dryRun bool) (runtime.Object, error) {
	if hidden, err := s.places.hidden(ctx, c); err != nil || hidden && !selfclient.IsServer(ctx) {
		if err == nil {
			err = notFound(s.kind.resource(), c.GetName())
		}
		return nil, err
	}
	if err := validation(ctx, c.DeepCopyObject()); err != nil {
		return nil, err
	}
	if dryRun || policy.Released(c) || policycodec.Quarantined(c) != "" {
		return c, nil
	}
	key, err := s.KeyFunc(ctx, c.GetName())
	if err != nil {
		return nil, err
	}
	uid := c.GetUID()
	out := s.New()
	err = s.Storage.GuaranteedUpdate(ctx, key, out, false, &kubestorage.Preconditions{UID: &uid}, func(existing runtime.Object, _ kubestorage.ResponseMeta) (runtime.Object, *uint64, error) {
		c := cast[C](existing)
		if policy.Released(c) {
			return existing, nil, nil
		}
		now, grace := metav1.Now().Rfc3339Copy(), int64(0)
		if c.GetDeletionTimestamp() == nil {
			c.SetDeletionTimestamp(&now)
			c.SetDeletionGracePeriodSeconds(&grace)
			c.SetGeneration(c.GetGeneration() + 1)
		}
		c.SetFinalizers(append(c.GetFinalizers(), policy.FinalizerNamespace))
		return existing, nil, nil
	}, false, nil)
	return out, storeerr.InterpretUpdateError(err, s.kind.resource(), c.GetName())
}

// remove takes an object out of the store, whatever finalizers it has.
func remove[C object](ctx context.Context, store *genericregistry.Store, c C, validation rest.ValidateObjectFunc, dryRun bool) (runtime.Object, error) {
	key, err := store.KeyFunc(ctx, c.GetName())
	if err != nil {
		return nil, err
	}
	uid := c.GetUID()
	out := store.NewFunc()
	err = store.Storage.Delete(ctx, key, out, &kubestorage.Preconditions{UID: &uid}, kubestorage.ValidateObjectFunc(validation), dryRun, nil, kubestorage.DeleteOptions{})
	return out, storeerr.InterpretDeleteError(err, store.DefaultQualifiedResource, c.GetName())
}

// DeleteCollection removes the objects that a list shows, up to the first one that cannot be deleted.
func (s *placedStorage[C]) DeleteCollection(ctx context.Context, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	found, err := s.List(ctx, list)
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(found)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if _, _, err := s.Delete(ctx, cast[C](item).GetName(), validation, options.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

// empty runs inside the store's own transaction, so an entry that is added at the same moment is either seen here or
// makes the deletion start again.
func (s *placedStorage[C]) empty(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := validation(ctx, obj); err != nil {
			return err
		}
		c := cast[C](obj)
		if s.names == nil || policycodec.Quarantined(c) != "" { // what is quarantined cannot be emptied
			return nil
		}
		names := s.names(c)
		if len(names) == 0 {
			return nil
		}
		return apierrors.NewConflict(s.kind.resource(), c.GetName(), fmt.Errorf(
			"it still holds %s; delete them first", enumerate(s.entries, names)))
	}
}
