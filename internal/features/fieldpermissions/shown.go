package fieldpermissions

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/fieldpermissions/openapi"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// shown is what the documents of the server say about field permissions, made once per table of permissions.
type shown struct {
	store *snapshot.Store
	// local reports whether this process serves a group version. What another server serves is not checked here.
	local authorize.Local

	mu     sync.Mutex
	fields *fieldperm.Table
	served *snapshot.Served
	notes  map[schema.GroupVersion]*openapi.Notes
}

// Notes implements openapi.Notary: the notes on a group version by the snapshot of a request.
func (s *shown) Notes(ctx context.Context, gv schema.GroupVersion) *openapi.Notes {
	snap := authorize.SnapshotOf(ctx, s.store)
	if snap.Fields == nil || !s.local.Local(gv.Group, gv.Version) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fields != snap.Fields || s.served != snap.Served {
		s.fields, s.served, s.notes = snap.Fields, snap.Served, map[schema.GroupVersion]*openapi.Notes{}
	}
	notes, known := s.notes[gv]
	if !known {
		notes = notesOn(snap, gv)
		s.notes[gv] = notes
	}
	return notes
}

func notesOn(snap *snapshot.Snapshot, gv schema.GroupVersion) *openapi.Notes {
	var kinds []openapi.Kind
	for _, gr := range snap.Served.Kinds().Resources() {
		if gr.Group == gv.Group {
			r := fieldperm.Resource{Group: gr.Group, Resource: gr.Resource}
			kinds = append(kinds, openapi.Kind{Kind: snap.Served.OwnKind(gr), Resource: r, Guarded: snap.Fields.In(r, gv.Version)})
		}
	}
	return openapi.NewNotes(gv, kinds)
}
