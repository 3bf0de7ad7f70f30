package statuswriter

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"proviso.dev/proviso/internal/state/snapshot"
)

// switched is a part of the snapshot that is complete when it is told so.
type switched struct{ synced chan struct{} }

func (switched) Name() string { return "switched" }

func (s switched) HasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

func (switched) Apply(*snapshot.Snapshot) {}

// SV-8: a status is computed from a complete snapshot, once, and again if it could not be written.
func TestPerSnapshot(t *testing.T) {
	store, part := snapshot.NewStore(), switched{make(chan struct{})}
	if err := store.Add(part); err != nil {
		t.Fatal(err)
	}
	go store.Run(t.Context().Done())
	var seen []uint64
	var failure error
	report := PerSnapshot(store, func(_ context.Context, snap *snapshot.Snapshot) error {
		seen = append(seen, snap.Generation)
		return failure
	})
	run := func() error { return report(t.Context()) }
	awaited := func(condition func() bool) {
		t.Helper()
		if err := wait.PollUntilContextCancel(t.Context(), 5*time.Millisecond, true, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
			t.Fatal(err)
		}
	}

	awaited(func() bool { return store.Current().Generation > 0 })
	if err := run(); err != nil || len(seen) > 0 {
		t.Errorf("reported of a snapshot that is not complete: %v", err)
	}
	close(part.synced)
	awaited(func() bool { return store.Current().Synced })
	failure = errors.New("no etcd")
	if err := run(); !errors.Is(err, failure) || len(seen) != 1 {
		t.Errorf("%v after %v", err, seen)
	}
	failure = nil
	if err := run(); err != nil || len(seen) != 2 {
		t.Errorf("not tried again: %v after %v", err, seen)
	}
	last := seen[len(seen)-1]
	if err := run(); err != nil || store.Current().Generation == last && len(seen) != 2 {
		t.Errorf("reported twice of one snapshot: %v, %v", seen, err)
	}
	store.Changed()
	awaited(func() bool { return store.Current().Generation > last })
	if err := run(); err != nil || seen[len(seen)-1] <= last {
		t.Errorf("not reported of the next snapshot: %v, %v", seen, err)
	}
}
