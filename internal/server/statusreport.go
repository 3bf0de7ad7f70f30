package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/snapshot"
)

const (
	// reportInterval is how soon a status says that something is wrong with an object, or no longer is.
	reportInterval = time.Second
	// reportPatience bounds how long a status that could not be written waits for the next attempt.
	reportPatience = 16 * time.Second
)

// keepReporting calls report every interval until the context ends, and after a failure ever more rarely until it succeeds.
func keepReporting(ctx context.Context, what string, report func(context.Context) error) {
	wait := reportInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := report(ctx)
		if err == nil {
			wait = reportInterval
			continue
		}
		if ctx.Err() == nil {
			klog.V(2).InfoS("A status could not be written, which is tried again", "of", what, "err", err)
		}
		wait = min(2*wait, reportPatience)
	}
}

// perSnapshot reports once for every snapshot that is complete, and again while that fails.
func perSnapshot(store *snapshot.Store, report func(context.Context, *snapshot.Snapshot) error) func(context.Context) error {
	var done uint64
	return func(ctx context.Context) error {
		snap := store.Current()
		if !snap.Synced || snap.Generation == done {
			return nil
		}
		if err := report(ctx, snap); err != nil {
			return err
		}
		done = snap.Generation
		return nil
	}
}

// reported is a stored kind whose status follows from the snapshot alone. Every replica computes the same, so that it does
// not matter which one writes.
type reported[T interface {
	runtime.Object
	metav1.Object
}, S any] struct {
	resource string
	objects  cache.SharedIndexInformer
	client   *rest.RESTClient
	stored   func(T) S
}

// update computes every status anew and writes those that have changed. One that cannot be written does not keep the
// others back.
func (r *reported[T, S]) update(ctx context.Context, compute func(T) S) error {
	var failed []error
	for _, obj := range listOf[T](r.objects) {
		if registry.Quarantined(obj) != "" {
			continue // says so itself, and is not written to
		}
		if next := compute(obj); !equality.Semantic.DeepEqual(next, r.stored(obj)) {
			if err := r.write(ctx, obj, next); err != nil && !apierrors.IsNotFound(err) {
				failed = append(failed, fmt.Errorf("%s %s/%s: %w", r.resource, obj.GetNamespace(), obj.GetName(), err))
			}
		}
	}
	return errors.Join(failed...)
}

// write names no resource version: what is computed from the newest snapshot may always be written.
func (r *reported[T, S]) write(ctx context.Context, obj T, status S) error {
	// "add" replaces the whole status; a merge patch would keep what is no longer there.
	data, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return err
	}
	request := r.client.Patch(types.JSONPatchType).Resource(r.resource).Name(obj.GetName()).SubResource("status").Body(data)
	if obj.GetNamespace() != "" {
		request = request.Namespace(obj.GetNamespace())
	}
	return request.Do(ctx).Error()
}
