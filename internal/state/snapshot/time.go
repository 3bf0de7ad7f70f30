package snapshot

import (
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// Clock tells the time.
type Clock interface {
	// Now returns the time, and whether it can be trusted. If it cannot, time-limited bindings and grants allow
	// nothing, and their deny rules deny.
	Now() (now time.Time, known bool)
}

// SystemClock is the clock of the machine, which is trusted.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() (time.Time, bool) { return time.Now(), true }

// reading is the time shown by a clock. The zero value is a time that is not known.
type reading struct {
	at    time.Time
	known bool
}

func read(c Clock) (r reading) {
	r.at, r.known = c.Now()
	return r
}

// Now implements Clock.
func (r reading) Now() (time.Time, bool) { return r.at, r.known }

// At returns the snapshot at an instant: the same policy, with the bindings that count then. Without time-limited
// bindings it is the snapshot itself.
func (s *Snapshot) At(t time.Time) *Snapshot {
	if s.HoldsAt(t) {
		return s
	}
	if s.views != nil {
		if known := s.views.Load(); known != nil && known.HoldsAt(t) {
			return known
		}
	}
	view := *s
	view.Rules, view.Access, view.Shadow.Rules = s.Rules.At(t), s.Access.At(t), s.Shadow.Rules.At(t)
	if s.views != nil {
		s.views.Store(&view)
	}
	return &view
}

// HoldsAt reports whether the snapshot is valid at an instant, too.
func (s *Snapshot) HoldsAt(t time.Time) bool {
	return s.Rules.HoldsAt(t) && s.Access.HoldsAt(t) && s.Shadow.Rules.HoldsAt(t)
}

// Unknown returns the snapshot for a time that is not known: time-limited bindings and grants allow nothing, and their
// deny rules deny.
func (s *Snapshot) Unknown() *Snapshot {
	if !s.IsTimed() {
		return s
	}
	view := *s
	view.Rules, view.Access, view.Shadow.Rules = s.Rules.Unknown(), s.Access.Unknown(), s.Shadow.Rules.Unknown()
	return &view
}

// Throughout returns the snapshot of what holds in all of a span.
func (s *Snapshot) Throughout(span ruleset.Span) *Snapshot {
	if !s.Rules.IsTimed() {
		return s
	}
	view := *s
	view.Rules = s.Rules.Throughout(span)
	return &view
}

// IsTimed reports whether some binding or grant is time-limited.
func (s *Snapshot) IsTimed() bool {
	return s.Rules.IsTimed() || s.Access.IsTimed() || s.Shadow.Rules.IsTimed()
}

// Edges returns when the bindings and grants of a user begin or end; of all users if the user is nil.
func (s *Snapshot) Edges(u user.Info) []time.Time {
	edges := append(s.Rules.Edges(u), s.Access.Edges(u)...)
	slices.SortFunc(edges, time.Time.Compare)
	return slices.CompactFunc(edges, time.Time.Equal)
}

// SameFor reports whether a user certainly has the same rights in both.
func (s *Snapshot) SameFor(u user.Info, other *Snapshot) bool {
	return s.Rules.SameFor(u, other.Rules) && s.Access.SameFor(u, other.Access)
}

// SameRights reports whether all users certainly have the same rights in both.
func (s *Snapshot) SameRights(other *Snapshot) bool {
	return s.Rules == other.Rules && s.Access == other.Access && s.Served == other.Served
}

// lookAgain is how often the clock is checked while there are time limits: the clock may be set.
const lookAgain = 500 * time.Millisecond

// askAgain is how often conditions on request.time are evaluated again: it is not known when they change.
const askAgain = 10 * time.Second

// passes reports whether time alone can change the snapshot.
func (s *Snapshot) passes() bool { return s.IsTimed() || s.Rules.AsksTime() }

// untilEdge returns how long the snapshot is certainly valid.
func (s *Store) untilEdge(published *Snapshot) time.Duration {
	wait := lookAgain
	now, known := s.clock.Now()
	for _, ix := range []interface{ Until() (time.Time, bool) }{published.Rules, published.Access, published.Shadow.Rules} {
		if edge, found := ix.Until(); found && known {
			wait = min(wait, max(edge.Sub(now.Round(0)), 0))
		}
	}
	return wait
}

// holds reports whether a published snapshot is valid at this instant.
func (s *Store) holds(published *Snapshot) bool {
	now, known := s.clock.Now()
	if known != published.time.known || published.Rules.AsksTime() && now.Sub(published.time.at) >= askAgain {
		return false
	}
	return !known || published.HoldsAt(now)
}
