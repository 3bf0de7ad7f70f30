package snapshot

import (
	"slices"
	"sync"

	"proviso.dev/proviso/internal/engine/revision"
)

// Revision is how recent a snapshot is, with the token that callers get. Consecutive snapshots that are equally recent
// share one.
type Revision struct {
	Vector revision.Vector
	token  func() string
}

func (r *Revision) at(v revision.Vector) *Revision {
	if r != nil && slices.Equal(r.Vector, v) {
		return r
	}
	return &Revision{Vector: v, token: sync.OnceValue(v.Token)}
}

// Token is built when it is first asked for; empty if it is not known how recent the snapshot is.
func (r *Revision) Token() string {
	if r == nil || len(r.Vector) == 0 {
		return ""
	}
	return r.token()
}

// Follow sets the source that knows how recent snapshots are. Call it before Run.
func (s *Store) Follow(source Dated) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dated = source.Revision
	source.OnMoved(s.Changed)
}
