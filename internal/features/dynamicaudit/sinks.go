package dynamicaudit

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/statuswriter"
)

// sinks is the part of the snapshot that tells the router what is in force. It does so on a separate goroutine:
// removing a spool must not delay a change of policy.
type sinks struct {
	router           *sink.Router
	accounts         Accounts
	local            snapshot.Objects
	sinks, classes   snapshot.Objects
	registered       []cache.InformerSynced
	wake             chan struct{}
	told             atomic.Bool
	changedAfterTold func()
}

func newSinks(router *sink.Router, accounts Accounts, from snapshot.Source, changed func()) (*sinks, error) {
	all, err := from.Objects(snapshot.AuditSinks)
	if err != nil {
		return nil, err
	}
	classes, err := from.Objects(snapshot.AuditClasses)
	if err != nil {
		return nil, err
	}
	local, err := from.Objects(snapshot.NamespaceAuditSinks)
	if err != nil {
		return nil, err
	}
	s := &sinks{router: router, accounts: accounts, local: local, sinks: all, classes: classes, wake: make(chan struct{}, 1), changedAfterTold: changed}
	poke := func(any) {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	for _, objects := range []snapshot.Objects{all, classes, local} {
		r, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(before, after any) {
			if generation(before) != generation(after) || quarantined(before) != quarantined(after) { // a new status changes nothing
				poke(after)
			}
		}})
		if err != nil {
			return nil, err
		}
		s.registered = append(s.registered, r.HasSynced)
	}
	synced, err := accounts.Follow(func() { poke(nil) })
	if err != nil {
		return nil, err
	}
	s.registered = append(s.registered, synced)
	return s, nil
}

// Name implements snapshot.Part.
func (s *sinks) Name() string { return "audit sinks" }

// HasSynced implements snapshot.Part: the router has been told once.
func (s *sinks) HasSynced() bool { return s.told.Load() }

// Apply implements snapshot.Part; the router keeps its own index.
func (s *sinks) Apply(*snapshot.Snapshot) {}

// Run tells the router of every change until the context ends.
func (s *sinks) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), s.registered...) {
		return
	}
	for {
		s.router.UpdateAll(s.inForce())
		if !s.told.Swap(true) {
			s.changedAfterTold()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

// inForce are all sinks, those of the cluster first, with the classes as they count.
func (s *sinks) inForce() ([]sink.Object, []*auditv1alpha1.AuditClass) {
	all, scopes := statuswriter.Sorted[*auditv1alpha1.AuditSink](s.sinks), map[string]*sink.Scope{}
	for _, local := range statuswriter.Sorted[*policyv1alpha1.NamespaceAuditSink](s.local) {
		like := asSink(local)
		scopes[like.Name] = scopeOf(local, s.accounts)
		all = append(all, like)
	}
	all, classes := inForce(all, statuswriter.Sorted[*auditv1alpha1.AuditClass](s.classes))
	var objects []sink.Object
	for _, one := range all {
		objects = append(objects, sink.Object{AuditSink: one, Scope: scopes[one.Name]})
	}
	return objects, classes
}

func generation(obj any) int64 {
	m, err := meta.Accessor(obj)
	if err != nil {
		return -1
	}
	return m.GetGeneration()
}

// quarantined reports whether an object is not understood, which depends on the release, not on a generation.
func quarantined(obj any) bool {
	o, ok := obj.(runtime.Object)
	return ok && policycodec.Quarantined(o) != ""
}
