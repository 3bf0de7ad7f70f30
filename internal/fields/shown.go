package fields

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/schemadoc"
	"proviso.dev/proviso/internal/snapshot"
)

// shown is what the documents of the server say about field permissions, made once per table of permissions.
type shown struct {
	store *snapshot.Store
	// local tells whether this process serves a group version. What another server serves is not checked here.
	local func(group, version string) bool

	mu     sync.Mutex
	fields *fieldperm.Table
	served *snapshot.Served
	notes  map[schema.GroupVersion]*schemadoc.Notes
}

// in are the notes on a group version by the snapshot of a request.
func (s *shown) in(ctx context.Context, gv schema.GroupVersion) *schemadoc.Notes {
	snap := authorize.SnapshotOf(ctx, s.store)
	if snap.Fields == nil || !s.local(gv.Group, gv.Version) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fields != snap.Fields || s.served != snap.Served {
		s.fields, s.served, s.notes = snap.Fields, snap.Served, map[schema.GroupVersion]*schemadoc.Notes{}
	}
	notes, known := s.notes[gv]
	if !known {
		notes = notesOn(snap, gv)
		s.notes[gv] = notes
	}
	return notes
}

func notesOn(snap *snapshot.Snapshot, gv schema.GroupVersion) *schemadoc.Notes {
	var kinds []schemadoc.Kind
	for _, gr := range snap.Served.Kinds().Resources() {
		if gr.Group == gv.Group {
			r := fieldperm.Resource{Group: gr.Group, Resource: gr.Resource}
			kinds = append(kinds, schemadoc.Kind{Kind: snap.Served.OwnKind(gr), Resource: r, Guarded: snap.Fields.In(r, gv.Version)})
		}
	}
	return schemadoc.NewNotes(gv, kinds)
}
