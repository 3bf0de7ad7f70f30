package snapshot

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/protect"
)

// ProtectionsConfig says where the protected attributes come from.
type ProtectionsConfig struct {
	Namespaced, Cluster cache.SharedIndexInformer
	// ExemptUsers and ExemptGroups copy what was already admitted, beyond the built-in controllers.
	ExemptUsers, ExemptGroups []string
	// MasterNamespace and Namespaces say what those of a namespace belong to; nil if that is not looked at.
	MasterNamespace string
	Namespaces      cache.SharedIndexInformer
}

// Protections is the part that keeps the index of protected attributes. There are few of them and they change rarely: every
// change compiles them all.
type Protections struct {
	cfg    ProtectionsConfig
	synced []cache.InformerSynced
	dirty  atomic.Bool
	index  *protect.Index

	mu     sync.Mutex
	places *places
}

// NewProtections registers with the informers. changed is called after every event.
func NewProtections(cfg ProtectionsConfig, changed func()) (*Protections, error) {
	p := &Protections{cfg: cfg, places: newPlaces(cfg.MasterNamespace, cfg.Namespaces)}
	p.dirty.Store(true)
	touch := func(any) {
		p.dirty.Store(true)
		changed()
	}
	for _, informer := range []cache.SharedIndexInformer{cfg.Namespaced, cfg.Cluster} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: touch, UpdateFunc: func(_, obj any) { touch(obj) }, DeleteFunc: func(obj any) {
				if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = tombstone.Obj
				}
				p.mu.Lock()
				p.places.forget(obj)
				p.mu.Unlock()
				touch(obj)
			},
		})
		if err != nil {
			return nil, err
		}
		p.synced = append(p.synced, registration.HasSynced)
	}
	synced, err := followNamespaces(cfg.Namespaces, func(name string, gone *corev1.Namespace) {
		objects, err := cfg.Namespaced.GetIndexer().ByIndex(cache.NamespaceIndex, name)
		if err != nil || len(objects) == 0 {
			return
		}
		p.mu.Lock()
		for _, obj := range objects {
			if o, ok := obj.(*policyv1alpha1.ProtectedAttribute); ok && gone != nil {
				p.places.bury(o, gone)
			}
		}
		p.mu.Unlock()
		touch(nil)
	})
	if synced != nil {
		p.synced = append(p.synced, synced)
	}
	return p, err
}

// counts is false for what has outlived its namespace.
func (p *Protections) counts(a *policyv1alpha1.ProtectedAttribute) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places.of(a) != nothing
}

// Name implements Part.
func (p *Protections) Name() string { return "protected attributes" }

// HasSynced implements Part.
func (p *Protections) HasSynced() bool {
	for _, synced := range p.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Apply implements Part. An object that cannot be compiled is reported and left out alone.
func (p *Protections) Apply(next *Snapshot) {
	if p.HasSynced() && p.dirty.Swap(false) {
		cfg := protect.Config{ExemptUsers: p.cfg.ExemptUsers, ExemptGroups: p.cfg.ExemptGroups}
		for _, obj := range p.cfg.Cluster.GetStore().List() {
			if a, ok := obj.(*policyv1alpha1.ClusterProtectedAttribute); ok {
				cfg.Protections = append(cfg.Protections, protect.FromCluster(a))
			}
		}
		for _, obj := range p.cfg.Namespaced.GetStore().List() {
			if a, ok := obj.(*policyv1alpha1.ProtectedAttribute); ok && p.counts(a) {
				cfg.Protections = append(cfg.Protections, protect.FromNamespaced(a))
			}
		}
		index, err := protect.New(cfg)
		if err != nil {
			klog.ErrorS(err, "Protected attributes that do not take effect")
		}
		p.index = index
	}
	next.Protect = p.index
}
