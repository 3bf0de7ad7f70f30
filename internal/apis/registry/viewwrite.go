package registry

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
)

// attempts is how often a write that others keep getting in the way of is started again. Writers of other entries do
// not count: those are merged by the store.
const attempts = 5

// Create adds an entry.
func (s *view[C, V]) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	entry := cast[V](obj)
	if entry.GetName() != "" || entry.GetGenerateName() == "" {
		return s.create(ctx, entry, validation, dryrun.IsDryRun(options.DryRun))
	}
	var created runtime.Object
	var err error
	for range attempts {
		try := cast[V](entry.DeepCopyObject())
		created, err = s.create(ctx, try, validation, dryrun.IsDryRun(options.DryRun))
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		err = rest.CheckGeneratedNameError(ctx, newStrategy(s.kind), err, try)
	}
	return created, err
}

func (s *view[C, V]) create(ctx context.Context, entry V, validation rest.ValidateObjectFunc, dryRun bool) (runtime.Object, error) {
	namespace, err := namespaceOf(ctx)
	if err != nil {
		return nil, err
	}
	if entry.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("metadata.resourceVersion: cannot be set on something that is created; leave it out")
	}
	disown(ctx, entry)
	strategy := newStrategy(s.kind)
	rest.FillObjectMetaSystemFields(entry)
	if entry.GetGenerateName() != "" && entry.GetName() == "" {
		entry.SetName(strategy.GenerateName(entry.GetGenerateName()))
	}
	var none V
	if err := s.inTurn(ctx, entry, none, func() error { return rest.BeforeCreate(strategy, ctx, entry) }); err != nil {
		return nil, err
	}
	if validation != nil {
		if err := validation(ctx, entry.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := s.admit(ctx, entry, none); err != nil {
		return nil, err
	}
	if err := s.add(ctx, namespace, entry, dryRun); err != nil {
		return nil, err
	}
	if dryRun {
		entry.SetResourceVersion("")
		return entry, nil
	}
	if err := s.confirm(ctx, entry); err != nil {
		return nil, s.takeBack(ctx, namespace, entry, err)
	}
	return entry, nil
}

// disown drops the owners of an entry. The garbage collector would delete it with them, and the index of owners, by
// which a deny of that is found, does not look into containers.
func disown[V object](ctx context.Context, entry V) {
	if len(entry.GetOwnerReferences()) > 0 {
		entry.SetOwnerReferences(nil)
		warning.AddWarning(ctx, "", "metadata.ownerReferences: are dropped: the object is an entry of its container and is not garbage-collected")
	}
}

// add puts a new entry into its container, which open has made sure to exist; if it was deleted at the same moment,
// open is asked again.
func (s *view[C, V]) add(ctx context.Context, namespace string, entry V, dryRun bool) error {
	for _, other := range s.candidates(namespace) {
		if other == s.home(entry) {
			continue
		}
		if c, err := s.containers.read(ctx, namespace, other, ""); err == nil {
			if _, taken := s.containers.get(c, entry.GetName()); taken {
				return apierrors.NewAlreadyExists(s.resource(), entry.GetName())
			}
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	var err error
	for range attempts {
		if err := s.open(ctx, entry, dryRun); err != nil {
			return err
		}
		err = s.containers.update(ctx, namespace, s.home(entry), dryRun, func(c C, version string) (bool, error) {
			if _, taken := s.containers.get(c, entry.GetName()); taken {
				return false, apierrors.NewAlreadyExists(s.resource(), entry.GetName())
			}
			if c.GetDeletionTimestamp() != nil {
				return false, apierrors.NewConflict(s.containers.store.DefaultQualifiedResource, c.GetName(),
					fmt.Errorf("it is being deleted; wait until it is gone and make it again"))
			}
			entry.SetResourceVersion(version)
			s.containers.put(c, entry)
			return true, nil
		})
		if !apierrors.IsNotFound(err) || dryRun {
			break
		}
	}
	if dryRun && apierrors.IsNotFound(err) {
		return nil // open would have made the container
	}
	return err
}

// takeBack removes an entry that must not stay, if it is still the same one. The caller gets the reason.
func (s *view[C, V]) takeBack(ctx context.Context, namespace string, entry V, reason error) error {
	err := s.containers.update(context.WithoutCancel(ctx), namespace, s.home(entry), false, func(c C, _ string) (bool, error) {
		now, ok := s.containers.get(c, entry.GetName())
		if !ok || now.GetUID() != entry.GetUID() {
			return false, nil
		}
		s.containers.drop(c, entry.GetName())
		return true, nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("%w; undoing the change of %s %q failed as well: %w", reason, s.resource(), entry.GetName(), err))
	}
	return reason
}

// Update changes an entry, or adds it if the caller applies.
func (s *view[C, V]) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	namespace, err := namespaceOf(ctx)
	if err != nil {
		return nil, false, err
	}
	objInfo = blamed{objInfo}
	dryRun := dryrun.IsDryRun(options.DryRun)
	for range attempts {
		var container string
		container, _, err = s.find(ctx, namespace, name, "")
		switch {
		case err == nil:
			var updated V
			updated, err = s.change(ctx, namespace, container, name, objInfo, updateValidation, dryRun)
			if err == nil {
				return updated, false, nil
			}
			if !forceAllowCreate || !apierrors.IsNotFound(err) {
				return nil, false, err
			}
		case apierrors.IsNotFound(err) && forceAllowCreate:
			obj, err := objInfo.UpdatedObject(ctx, s.New())
			if err != nil {
				return nil, false, err
			}
			entry := cast[V](obj)
			if v := entry.GetResourceVersion(); v != "" {
				return nil, false, apierrors.NewConflict(s.resource(), name, fmt.Errorf("it no longer exists, and you expect its resource version %s", v))
			}
			rest.WipeObjectMetaSystemFields(entry)
			created, err := s.create(ctx, entry, createValidation, dryRun)
			if !apierrors.IsAlreadyExists(err) {
				return created, err == nil, err
			}
		default:
			return nil, false, err
		}
	}
	return nil, false, apierrors.NewConflict(s.resource(), name, fmt.Errorf("others keep adding and removing it; try again"))
}

// inTurn checks an entry when it is the caller's turn, if that takes long.
func (s *view[C, V]) inTurn(ctx context.Context, entry, old V, check func() error) error {
	if s.kind.turn != nil {
		done, err := s.kind.turn(ctx, entry, old)
		if err != nil {
			return err
		}
		defer done()
	}
	return check()
}

// change replaces one entry by what the caller makes of it. Everything else in the container stays as it is at the
// moment of the write.
func (s *view[C, V]) change(ctx context.Context, namespace, container, name string, objInfo rest.UpdatedObjectInfo,
	validation rest.ValidateObjectUpdateFunc, dryRun bool) (V, error) {
	var result V
	err := s.containers.update(ctx, namespace, container, dryRun, func(c C, version string) (bool, error) {
		current, ok := s.containers.get(c, name)
		if !ok {
			return false, notFound(s.resource(), name)
		}
		if err := s.precondition(objInfo.Preconditions(), current); err != nil {
			return false, err
		}
		obj, err := objInfo.UpdatedObject(ctx, current.DeepCopyObject())
		if err != nil {
			return false, err
		}
		entry := cast[V](obj)
		disown(ctx, entry)
		switch entry.GetResourceVersion() {
		case "":
			entry.SetResourceVersion(current.GetResourceVersion())
		case current.GetResourceVersion():
		default:
			return false, apierrors.NewConflict(s.resource(), name, fmt.Errorf("%s", genericregistry.OptimisticLockErrorMsg))
		}
		before := func() error { return rest.BeforeUpdate(newStrategy(s.kind), ctx, entry, current) }
		if err := s.inTurn(ctx, entry, current, before); err != nil {
			return false, err
		}
		same, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, entry, current)
		if err != nil {
			return false, err
		}
		entry = cast[V](same)
		if validation != nil {
			if err := validation(ctx, entry.DeepCopyObject(), current.DeepCopyObject()); err != nil {
				return false, err
			}
		}
		if err := s.admit(ctx, entry, current); err != nil {
			return false, err
		}
		result = entry
		if equality.Semantic.DeepEqual(entry, current) {
			return false, nil
		}
		entry.SetResourceVersion(version)
		s.containers.put(c, entry)
		return true, nil
	})
	return result, err
}

// errChanged says that an entry is no longer the one that was looked at.
var errChanged = errors.New("the entry was changed meanwhile")

// errPending says that an entry is marked and goes later.
var errPending = errors.New("the entry is deleted as soon as possible")

// Delete removes an entry: exactly the version that admission has seen, or it looks again.
func (s *view[C, V]) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	namespace, err := namespaceOf(ctx)
	if err != nil {
		return nil, false, err
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	dryRun := dryrun.IsDryRun(options.DryRun)
	preconditions := options.Preconditions
	for range attempts {
		container, entry, err := s.find(ctx, namespace, name, "")
		if err != nil {
			return nil, false, err
		}
		if err := s.precondition(preconditions, entry); err != nil {
			return nil, false, err
		}
		if validation != nil {
			if err := validation(ctx, entry.DeepCopyObject()); err != nil {
				return nil, false, err
			}
		}
		version, err := s.release(ctx, entry, background(options), dryRun)
		if errors.Is(err, errPending) {
			return s.pending(ctx, namespace, name, entry)
		}
		if err == nil {
			err = s.remove(ctx, namespace, container, entry, version, dryRun)
		}
		if err == nil {
			if s.removed != nil && !dryRun {
				s.removed(context.WithoutCancel(ctx), entry)
			}
			return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
				Name: name, Group: s.resource().Group, Kind: s.resource().Resource, UID: entry.GetUID(),
			}}, true, nil
		}
		if !errors.Is(err, errChanged) {
			return nil, false, err
		}
		if preconditions != nil && preconditions.ResourceVersion != nil {
			break // another writer changed it, and the caller wanted exactly the version that was there before
		}
	}
	return nil, false, apierrors.NewConflict(s.resource(), name, fmt.Errorf("others keep changing it; try again"))
}

// background reports whether the caller is content with an entry that goes later, as kubectl is: it waits for it.
func background(options *metav1.DeleteOptions) bool {
	return options.PropagationPolicy != nil && *options.PropagationPolicy != metav1.DeletePropagationOrphan
}

// pending answers with the entry as it is now, marked; it may even be gone.
func (s *view[C, V]) pending(ctx context.Context, namespace, name string, entry V) (runtime.Object, bool, error) {
	_, now, err := s.find(ctx, namespace, name, "")
	if err != nil || now.GetUID() != entry.GetUID() {
		return entry, true, nil //nolint:nilerr // it is gone, or another one is there
	}
	return now, false, nil
}

// remove takes out one version of an entry.
func (s *view[C, V]) remove(ctx context.Context, namespace, container string, entry V, version string, dryRun bool) error {
	err := s.containers.update(ctx, namespace, container, dryRun, func(c C, _ string) (bool, error) {
		now, ok := s.containers.get(c, entry.GetName())
		if !ok {
			return false, notFound(s.resource(), entry.GetName())
		}
		if now.GetUID() != entry.GetUID() || now.GetResourceVersion() != version {
			return false, errChanged
		}
		s.containers.drop(c, entry.GetName())
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return notFound(s.resource(), entry.GetName())
	}
	return err
}

// GetCorruptObjDeleter refuses what is meant for objects that the store cannot read: an entry can be read, or its whole
// container cannot.
func (s *view[C, V]) GetCorruptObjDeleter() rest.GracefulDeleter { return unsafeDeleter[C, V]{s} }

type unsafeDeleter[C, V object] struct {
	*view[C, V]
}

func (d unsafeDeleter[C, V]) Delete(context.Context, string, rest.ValidateObjectFunc, *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return nil, false, apierrors.NewBadRequest("ignoreStoreReadErrorWithClusterBreakingPotential: " + d.resource().String() +
		" are entries of a container; use it on the container (" + d.containers.store.DefaultQualifiedResource.String() + ")")
}

func (s *view[C, V]) precondition(p *metav1.Preconditions, entry V) error {
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != entry.GetUID():
		return apierrors.NewConflict(s.resource(), entry.GetName(), fmt.Errorf("the uid is %s, not %s as you expect: it is another object of the same name", entry.GetUID(), *p.UID))
	case p.ResourceVersion != nil && *p.ResourceVersion != entry.GetResourceVersion():
		return apierrors.NewConflict(s.resource(), entry.GetName(), fmt.Errorf("the resource version is %s, not %s as you expect: it was changed meanwhile", entry.GetResourceVersion(), *p.ResourceVersion))
	}
	return nil
}
