package snapshot

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/protect"
	"proviso.dev/proviso/internal/ruleset"
)

// Snapshot is everything that grants, denies or constrains, compiled, at one moment. It is immutable once published.
type Snapshot struct {
	// Generation counts publications; two requests with the same generation were decided by the same policy.
	Generation uint64
	// Synced is false until every part has seen its sources completely once.
	Synced bool
	// Rules is the index of Policy and RBAC; nil until it has been read.
	Rules *ruleset.Index
	// Served is what the server serves, and Resources what of it can be listed.
	Served    *Served
	Resources Resources
	// Heard are the group versions of other servers that have said what they serve.
	Heard map[schema.GroupVersion]bool
	// Protect is the index of protected attributes; nil while that system is off.
	Protect *protect.Index
	// Fields is the table of field permissions; nil while that system is off.
	Fields *fieldperm.Table
}

// Part is one compiled component of the snapshot, fed by its own informers. Apply is only ever called by the store's
// single writer, never concurrently.
type Part interface {
	// Name appears in readiness messages: "waiting for rbac".
	Name() string
	// HasSynced tells whether the part has seen all that existed when it started.
	HasSynced() bool
	// Apply folds what changed since the last call into the snapshot about to be published.
	Apply(next *Snapshot)
}

// Store publishes snapshots. Readers never block and never see half a change.
type Store struct {
	current atomic.Pointer[Snapshot]
	dirty   chan struct{}

	mu    sync.Mutex
	parts []Part
}

// NewStore returns a store whose current snapshot is empty and not synced.
func NewStore() *Store {
	s := &Store{dirty: make(chan struct{}, 1)}
	s.current.Store(&Snapshot{})
	return s
}

// Current is the newest snapshot. It is never nil.
func (s *Store) Current() *Snapshot { return s.current.Load() }

// Add registers a part. All parts must be added before Run.
func (s *Store) Add(p Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
}

// Changed tells the store that a part has something to apply. It never blocks; changes that arrive together are
// published together.
func (s *Store) Changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// Run publishes until stop is closed. Until the first complete snapshot it also looks by itself whether the parts have
// synced: an empty source syncs without ever reporting a change.
func (s *Store) Run(stop <-chan struct{}) {
	s.publish()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		if s.Current().Synced {
			retry.Stop()
		}
		select {
		case <-stop:
			return
		case <-s.dirty:
		case <-retry.C:
		}
		s.publish()
	}
}

func (s *Store) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.current.Load()
	next.Generation++
	synced := true
	for _, p := range s.parts {
		// HasSynced is read before Apply: what the sources delivered until then is then certainly applied.
		if !p.HasSynced() {
			synced = false
		}
		p.Apply(&next)
	}
	// A snapshot never becomes unsynced again: a source that reconnects keeps what it had.
	next.Synced = next.Synced || synced
	s.current.Store(&next)
}

// ErrNotSynced is what readiness reports before the first complete snapshot.
var ErrNotSynced = errors.New("policy snapshot is not synced")

// Ready returns nil once a complete snapshot is current, and otherwise an error that names what is missing.
func (s *Store) Ready() error {
	if s.Current().Synced {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if !p.HasSynced() {
			return fmt.Errorf("%w: waiting for %s", ErrNotSynced, p.Name())
		}
	}
	return ErrNotSynced
}
