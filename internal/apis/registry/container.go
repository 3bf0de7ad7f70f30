package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kubestorage "k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"

	"proviso.dev/proviso/internal/state/policycodec"
)

const (
	// maxContainer is how large a container can be, without its status.
	maxContainer = 1 << 20
	// maxWithStatus is how large it can be with it. etcd takes 1.5 MiB, a bit of which is the key and the envelope.
	maxWithStatus = 1<<20 + 1<<18
	// namedInError is how many entries of a container an error names.
	namedInError = 5
)

// layout says where the entries of a view are in their container.
type layout[C, V object] struct {
	// names are the names of all entries, in order.
	names func(C) []string
	// get returns a copy of an entry, without the owners that earlier releases have stored.
	get func(c C, name string) (V, bool)
	// put adds or replaces an entry. It must not change what C shared with others before.
	put func(c C, entry V)
	// drop removes an entry, likewise.
	drop func(c C, name string)
	// modified sets the time of the last change.
	modified func(C, metav1.Time)
	// clearStatus removes the status, to measure the rest.
	clearStatus func(C)
	// check refuses contents that are too much for others to bear; optional.
	check func(C) error
}

// containers are the stored containers that a view is a view on. Those that count no more, or go with their namespace,
// are not seen.
type containers[C, V object] struct {
	store *genericregistry.Store
	layout[C, V]
	places places
	turns  courtesy
}

// context returns the context for an operation on the container itself: errors of the store name it, not the view.
func (s *containers[C, V]) context(ctx context.Context, namespace string) context.Context {
	gr := s.store.DefaultQualifiedResource
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, APIGroup: gr.Group, Resource: gr.Resource, Namespace: namespace})
	return request.WithNamespace(ctx, namespace)
}

// read returns a container as it is, or at least as new as the resource version.
func (s *containers[C, V]) read(ctx context.Context, namespace, name, resourceVersion string) (C, error) {
	c, err := s.holding(ctx, namespace, name, resourceVersion)
	if err != nil {
		return c, err
	}
	return c, s.visible(ctx, c)
}

// visible returns a 404 for a hidden container.
func (s *containers[C, V]) visible(ctx context.Context, c C) error {
	hidden, err := s.places.hidden(ctx, c)
	if err == nil && hidden {
		err = notFound(s.store.DefaultQualifiedResource, c.GetName())
	}
	return err
}

// holding is read for checks that have to see what still denies: a container that goes with its namespace as well.
func (s *containers[C, V]) holding(ctx context.Context, namespace, name, resourceVersion string) (C, error) {
	var none C
	obj, err := s.store.Get(s.context(ctx, namespace), name, &metav1.GetOptions{ResourceVersion: resourceVersion})
	if err != nil {
		return none, err
	}
	stale, err := s.places.stale(ctx, cast[C](obj))
	if err == nil && stale {
		err = notFound(s.store.DefaultQualifiedResource, name)
	}
	if err != nil {
		return none, err
	}
	return cast[C](obj), nil
}

// list returns the containers of a namespace, or of all, and the resource version of the list.
func (s *containers[C, V]) list(ctx context.Context, namespace string, options *metainternalversion.ListOptions) (runtime.Object, error) {
	found, err := s.store.List(s.context(ctx, namespace), options)
	if err != nil {
		return nil, err
	}
	return found, withoutHidden[C](ctx, s.places, found)
}

// create makes an empty container.
func (s *containers[C, V]) create(ctx context.Context, c C) error {
	_, err := createPlaced[C](s.context(ctx, c.GetNamespace()), s.places, s.store, c, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	return err
}

// update changes the entries of a container. change gets its contents as they are now, possibly more than once: if
// another writer was faster, it is called again with what that writer left. It returns false if there is nothing to
// change. A new version of an entry takes the resource version that the container had before: no two changes of a
// container see the same one, and it grows with every change, even after the container was deleted and made again.
func (s *containers[C, V]) update(ctx context.Context, namespace, name string, dryRun bool, change func(c C, version string) (bool, error)) error {
	ctx = s.context(ctx, namespace)
	key, err := s.store.KeyFunc(ctx, name)
	if err != nil {
		return err
	}
	try := func(existing runtime.Object, _ kubestorage.ResponseMeta) (runtime.Object, *uint64, error) {
		c := cast[C](existing)
		if err := s.visible(ctx, c); err != nil {
			return existing, nil, err
		}
		if errs := policycodec.RefuseQuarantined(c); len(errs) > 0 {
			return existing, nil, apierrors.NewConflict(s.store.DefaultQualifiedResource, c.GetName(), errs.ToAggregate())
		}
		was := s.excess(c)
		changed, err := change(c, c.GetResourceVersion())
		if err != nil || !changed {
			return existing, nil, err
		}
		if err := s.excess(c); err != nil && was == nil { // what is over already must be possible to reduce
			return existing, nil, err
		}
		c.SetGeneration(c.GetGeneration() + 1)
		s.modified(c, metav1.Now().Rfc3339Copy())
		return existing, nil, s.fits(c)
	}
	if !dryRun {
		defer s.turns.take(ctx, key)()
	}
	out := s.store.NewFunc()
	err = s.store.Storage.GuaranteedUpdate(ctx, key, out, false, &kubestorage.Preconditions{}, try, dryRun, nil)
	return storeerr.InterpretUpdateError(err, s.store.DefaultQualifiedResource, name)
}

func (s *containers[C, V]) excess(c C) error {
	if s.check == nil {
		return nil
	}
	return s.check(c)
}

// fits refuses a container that is too large, before the store would.
func (s *containers[C, V]) fits(c C) error {
	full, err := size(c)
	if err != nil {
		return err
	}
	if full <= maxContainer {
		return nil
	}
	bare := cast[C](c.DeepCopyObject())
	s.clearStatus(bare)
	content, err := size(bare)
	if err != nil {
		return err
	}
	if content > maxContainer {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s %s/%s would hold %d bytes, and %d are the limit of a container; delete entries, make them smaller, or use another namespace",
			s.store.DefaultQualifiedResource, c.GetNamespace(), c.GetName(), content, maxContainer))
	}
	if full > maxWithStatus {
		// The status is the server's own and will be computed again.
		s.clearStatus(c)
	}
	return nil
}

func size(v any) (int, error) {
	data, err := json.Marshal(v)
	return len(data), err
}

// statusSize refuses a status that would make its container too large for the store.
func statusSize(obj runtime.Object) field.ErrorList {
	n, err := size(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("status"), err)}
	}
	if n > maxWithStatus {
		return field.ErrorList{field.Invalid(field.NewPath("status"), "", fmt.Sprintf("makes the object %d bytes large, and %d are the limit; shorten the lists", n, maxWithStatus))}
	}
	return nil
}

// ago prints how long ago something was.
func ago(t metav1.Time) string {
	if t.IsZero() {
		return "<never>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// enumerate names the first few of many: `7 roles (a, b, c, d, e, …)`.
func enumerate(what string, names []string) string {
	listed := names
	more := ""
	if len(listed) > namedInError {
		listed, more = listed[:namedInError], ", …"
	}
	if len(names) == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	return fmt.Sprintf("%d %s (%s%s)", len(names), what, strings.Join(listed, ", "), more)
}

// notFound is what a view answers for an entry that no container has.
func notFound(gr schema.GroupResource, name string) error { return apierrors.NewNotFound(gr, name) }
