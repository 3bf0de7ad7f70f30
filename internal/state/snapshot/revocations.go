package snapshot

import (
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// Revocations is the part with the revoked narrowed tokens. There are few of them.
type Revocations struct {
	objects Objects
	synced  cache.InformerSynced
	dirty   atomic.Bool
	known   *narrowedtoken.Revocations
}

// NewRevocations registers with the source. changed is called after every event.
func NewRevocations(from Source, changed func()) (*Revocations, error) {
	objects, err := from.Objects(TokenRevocations)
	if err != nil {
		return nil, err
	}
	r := &Revocations{objects: objects, synced: func() bool { return true }}
	r.dirty.Store(true)
	if objects == nil {
		return r, nil
	}
	touch := func(any) {
		r.dirty.Store(true)
		changed()
	}
	registration, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: touch, UpdateFunc: func(_, obj any) { touch(obj) }, DeleteFunc: touch,
	})
	if err != nil {
		return nil, err
	}
	r.synced = registration.HasSynced
	return r, nil
}

// Name implements Part.
func (r *Revocations) Name() string { return "token revocations" }

// HasSynced implements Part.
func (r *Revocations) HasSynced() bool { return r.synced() }

// Apply implements Part. Until everything is known, every token is revoked.
func (r *Revocations) Apply(next *Snapshot) {
	if r.HasSynced() && r.dirty.Swap(false) {
		r.known = narrowedtoken.NewRevocations(Of[*accessv1alpha1.TokenRevocation](r.objects))
	}
	next.Revoked = r.known
}
