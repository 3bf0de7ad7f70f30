package statuswriter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// reportInterval is how soon a status says that something is wrong with an object, or no longer is.
	reportInterval = time.Second
	// reportPatience bounds how long a status that could not be written waits for the next attempt.
	reportPatience = 16 * time.Second
)

// Keep calls report every interval until the context ends; after a failure it backs off until it succeeds.
func Keep(ctx context.Context, what string, report func(context.Context) error) {
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
			klog.V(2).InfoS("A status could not be written; the server tries again", "of", what, "err", err)
		}
		wait = min(2*wait, reportPatience)
	}
}

// PerSnapshot reports once for every complete snapshot, and retries while that fails.
func PerSnapshot(store *snapshot.Store, report func(context.Context, *snapshot.Snapshot) error) func(context.Context) error {
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

// Kind is a stored kind whose status follows from the snapshot alone. Every replica computes the same, so it does not
// matter which one writes.
type Kind[T interface {
	runtime.Object
	metav1.Object
}, S any] struct {
	Resource string
	Objects  snapshot.Objects
	Client   *rest.RESTClient
	// Stored returns the stored status of an object.
	Stored func(T) S
}

// Update computes every status again and writes those that have changed. One that cannot be written does not hold up
// the others.
func (r *Kind[T, S]) Update(ctx context.Context, compute func(T) S) error {
	var failed []error
	for _, obj := range Sorted[T](r.Objects) {
		if policycodec.Quarantined(obj) != "" {
			continue // it says so itself, and must not be written to
		}
		if next := compute(obj); !equality.Semantic.DeepEqual(next, r.Stored(obj)) {
			if err := r.write(ctx, obj, next); err != nil && !apierrors.IsNotFound(err) {
				failed = append(failed, fmt.Errorf("%s %s/%s: %w", r.Resource, obj.GetNamespace(), obj.GetName(), err))
			}
		}
	}
	return errors.Join(failed...)
}

// write does not name a resource version: a status computed from the newest snapshot may always be written.
func (r *Kind[T, S]) write(ctx context.Context, obj T, status S) error {
	// "add" replaces the whole status; a merge patch would keep removed fields.
	data, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return err
	}
	request := r.Client.Patch(types.JSONPatchType).Resource(r.Resource).Name(obj.GetName()).SubResource("status").Body(data)
	if obj.GetNamespace() != "" {
		request = request.Namespace(obj.GetNamespace())
	}
	return request.Do(ctx).Error()
}

// Sorted lists objects by name.
func Sorted[T interface {
	runtime.Object
	metav1.Object
}](objects snapshot.Objects) []T {
	all := snapshot.Of[T](objects)
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetName(), b.GetName()), strings.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	return all
}

// SetCondition is True when there is nothing wrong.
func SetCondition(conditions *[]metav1.Condition, generation int64, kind, reason, prefix string, wrong []string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "AsWritten", ObservedGeneration: generation}
	if len(wrong) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, prefix+strings.Join(wrong, ", ")
		if len(c.Message) > 1024 {
			c.Message = strings.ToValidUTF8(c.Message[:1024], "") + "…"
		}
	}
	meta.SetStatusCondition(conditions, c)
}
