package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Snapshot is everything that grants, denies or constrains, compiled, at one moment. It is immutable once published.
type Snapshot struct {
	// Generation counts publications; two requests with the same generation were decided by the same policy.
	Generation uint64
	// Synced is false until every part has seen its sources completely once.
	Synced bool
	// Revision is how recent it is; nil if its source does not know.
	Revision *Revision
	// Rules is the index of Policy and RBAC; nil until it has been read.
	Rules *ruleset.Index
	// Served is what the server serves, and Resources the part of it that can be listed.
	Served    *Served
	Resources Resources
	// Heard are the group versions of other servers that have reported what they serve.
	Heard map[schema.GroupVersion]bool
	// Protect is the index of protected attributes; nil while that system is off.
	Protect *protectedattr.Index
	// Fields is the table of field permissions; nil while that system is off.
	Fields *fieldperm.Table
	// Revoked are the revoked narrowed tokens; nil while that system is off, or not synced.
	Revoked *narrowedtoken.Revocations
	// Access is what users can ask for, and what was granted; nil if nothing can be asked for.
	Access *access.Index
	// Shadow holds the shadow rules. Nothing that decides looks at it.
	Shadow Shadow

	// time is the time it was published for, and views caches the last result of At; nil for one that was not
	// published.
	time  reading
	views *atomic.Pointer[Snapshot]
}

// Part is one compiled component of the snapshot, fed by its source. Apply is only ever called by the store's
// single writer, never concurrently.
type Part interface {
	// Name appears in readiness messages: "waiting for rbac".
	Name() string
	// HasSynced reports whether the part has seen all that existed when it started.
	HasSynced() bool
	// Apply folds what changed since the last call into the snapshot about to be published.
	Apply(next *Snapshot)
}

// Needing is a part that reads what other parts have put into the snapshot. It is applied after them, in whatever order
// they were added.
type Needing interface {
	// Needs are the names of those parts. Without them there is no complete snapshot.
	Needs() []string
}

// PoliciesAndRBAC is the name of the part that fills in Rules.
const PoliciesAndRBAC = "policies and RBAC"

// WhatIsServed is the name of the part that fills in Served, Resources and Heard.
const WhatIsServed = "what is served"

// Store publishes snapshots. Readers never block and never see half a change.
type Store struct {
	current atomic.Pointer[Snapshot]
	next    atomic.Pointer[chan struct{}]
	dirty   chan struct{}

	mu    sync.Mutex
	parts []Part
	// dated knows how recent the sources are; nil if that is not known.
	dated func() revision.Vector
	clock Clock
}

// NewStore returns a store whose current snapshot is empty and not synced. It trusts the clock of the machine.
func NewStore() *Store { return NewStoreWith(SystemClock{}) }

// NewStoreWith returns a store that uses another clock.
func NewStoreWith(clock Clock) *Store {
	s := &Store{dirty: make(chan struct{}, 1), clock: clock}
	s.current.Store(&Snapshot{})
	next := make(chan struct{})
	s.next.Store(&next)
	return s
}

// Current returns the newest snapshot, at this instant. It is never nil.
func (s *Store) Current() *Snapshot {
	if snap := s.current.Load(); !snap.IsTimed() {
		return snap
	}
	snap, _ := s.Now()
	return snap
}

// Clock returns the clock of the store.
func (s *Store) Clock() Clock { return s.clock }

// Now returns the newest snapshot at this instant, and the instant; zero if the time is not known.
func (s *Store) Now() (*Snapshot, time.Time) {
	snap := s.current.Load()
	now, known := s.clock.Now()
	if !known {
		return snap.Unknown(), time.Time{}
	}
	return snap.At(now), now
}

// Next returns a channel that is closed when there is a newer snapshot than at the moment of the call. To not miss one,
// call it before Current.
func (s *Store) Next() <-chan struct{} { return *s.next.Load() }

// Add registers parts, and puts all of them in the order of their needs. All parts must be added before Run. On error
// nothing changes.
func (s *Store) Add(parts ...Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ordered, err := inOrder(append(slices.Clone(s.parts), parts...))
	if err == nil {
		s.parts = ordered
	}
	return err
}

// inOrder puts each part behind those that it needs, and otherwise keeps the order. A part that does not exist is
// waited for: see missing.
func inOrder(parts []Part) ([]Part, error) {
	byName := map[string]Part{}
	for _, p := range parts {
		if byName[p.Name()] != nil {
			return nil, fmt.Errorf("policy snapshot: two parts are called %q", p.Name())
		}
		byName[p.Name()] = p
	}
	var ordered []Part
	const begun, done = 1, 2
	state := map[string]int{}
	var place func(Part) error
	place = func(p Part) error {
		switch state[p.Name()] {
		case done:
			return nil
		case begun:
			return fmt.Errorf("policy snapshot: %q needs itself", p.Name())
		}
		state[p.Name()] = begun
		for _, name := range needs(p) {
			if needed := byName[name]; needed != nil {
				if err := place(needed); err != nil {
					return err
				}
			}
		}
		state[p.Name()] = done
		ordered = append(ordered, p)
		return nil
	}
	for _, p := range parts {
		if err := place(p); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

func needs(p Part) []string {
	if n, ok := p.(Needing); ok {
		return n.Needs()
	}
	return nil
}

// missing returns what a part waits for: a part that it needs and that does not exist or has not synced, or itself; ""
// if nothing is missing.
func (s *Store) missing(p Part) string {
	for _, name := range needs(p) {
		if !slices.ContainsFunc(s.parts, func(other Part) bool { return other.Name() == name }) {
			return name
		}
	}
	if !p.HasSynced() {
		return p.Name()
	}
	return ""
}

// Changed tells the store that a part has something to apply. It never blocks; changes that arrive together are
// published together.
func (s *Store) Changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// Publish publishes a snapshot of what the parts currently know, for hosts whose source does not change. Other hosts
// use Run.
func (s *Store) Publish() { s.publish() }

// Run publishes until stop is closed. Until the first complete snapshot it also polls whether the parts have synced: an
// empty source syncs without ever reporting a change.
func (s *Store) Run(stop <-chan struct{}) {
	s.publish()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	edge := time.NewTimer(0)
	defer edge.Stop()
	for {
		published := s.current.Load()
		if published.Synced {
			retry.Stop()
		}
		if published.passes() {
			edge.Reset(s.untilEdge(published))
		}
		select {
		case <-stop:
			return
		case <-s.dirty:
		case <-retry.C:
		case <-edge.C:
			if s.holds(published) {
				continue
			}
		}
		s.publish()
	}
}

func (s *Store) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.current.Load()
	next.Generation++
	next.time, next.views = read(s.clock), new(atomic.Pointer[Snapshot])
	if s.dated != nil {
		// It is read before anything is applied, so what the sources have seen by then is certainly included.
		next.Revision = next.Revision.at(s.dated())
	}
	synced := true
	for _, p := range s.parts {
		// HasSynced is read before Apply, so what the sources delivered by then is certainly applied.
		if s.missing(p) != "" {
			synced = false
		}
		p.Apply(&next)
	}
	// A snapshot never becomes unsynced again: a source that reconnects keeps what it had.
	next.Synced = next.Synced || synced
	s.current.Store(&next)
	waiting := make(chan struct{})
	close(*s.next.Swap(&waiting))
}

// ErrNotSynced is what readiness reports before the first complete snapshot.
var ErrNotSynced = errors.New("policy snapshot is not synced")

// Ready returns nil once a complete snapshot is current, and otherwise an error that names what is missing.
func (s *Store) Ready() error {
	if s.current.Load().Synced {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if name := s.missing(p); name != "" {
			return fmt.Errorf("%w: waiting for %s", ErrNotSynced, name)
		}
	}
	return ErrNotSynced
}
