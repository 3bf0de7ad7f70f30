package rbacstorage

import (
	"context"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"proviso.dev/proviso/internal/state/snapshot"
)

// Within reads RBAC in this process. A request to the loopback would encode every object and decode it again, which
// takes as long as reading them from etcd, and leaves a second copy of every name. What is read is shared with the
// watch cache: nobody may change it.
type Within struct {
	mu     sync.Mutex
	stored map[string]checkedStorage
}

func (w *Within) keep(resource string, s checkedStorage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stored == nil {
		w.stored = map[string]checkedStorage{}
	}
	w.stored[resource] = s
}

// ListerWatcher implements source.Stored. It returns nil for what is not stored here, or not yet.
func (w *Within) ListerWatcher(kind snapshot.Kind) cache.ListerWatcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stored[kind.Resource]
	if kind.Group != rbacv1.GroupName || s == nil {
		return nil
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, asked metav1.ListOptions) (runtime.Object, error) {
			options, err := internalOptions(&asked)
			if err != nil {
				return nil, err
			}
			list, err := s.List(request.WithNamespace(ctx, metav1.NamespaceAll), options)
			if err != nil {
				return nil, err
			}
			return versioned(list)
		},
		WatchFuncWithContext: func(ctx context.Context, asked metav1.ListOptions) (watch.Interface, error) {
			options, err := internalOptions(&asked)
			if err != nil {
				return nil, err
			}
			changes, err := s.Watch(request.WithNamespace(ctx, metav1.NamespaceAll), options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(changes, versionedEvent), nil
		},
	}
}

func internalOptions(asked *metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	options := &metainternalversion.ListOptions{}
	return options, metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(asked, options, nil)
}

// versionedEvent converts what a watch tells. If that fails, the watch ends with an error and everything is read again.
func versionedEvent(e watch.Event) (watch.Event, bool) {
	if e.Type == watch.Error {
		return e, true
	}
	obj, err := versioned(e.Object)
	if err != nil {
		return watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}, true
	}
	return watch.Event{Type: e.Type, Object: obj}, true
}

// versioned is an object or a list as clients see it. It shares everything below with the original.
func versioned(obj runtime.Object) (runtime.Object, error) {
	if shared, encoded := obj.(runtime.CacheableObject); encoded {
		obj = shared.GetObject()
	}
	out, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj, rbacv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("a stored object of RBAC: %w", err)
	}
	if out == obj {
		return nil, fmt.Errorf("a stored object of RBAC is a %T already", obj) // it would be changed in the watch cache
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out, nil
}
