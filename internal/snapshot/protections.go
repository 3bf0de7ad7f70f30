package snapshot

import (
	"sync/atomic"

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
}

// Protections is the part that keeps the index of protected attributes. There are few of them and they change rarely: every
// change compiles them all.
type Protections struct {
	cfg    ProtectionsConfig
	synced []cache.InformerSynced
	dirty  atomic.Bool
	index  *protect.Index
}

// NewProtections registers with the informers. changed is called after every event.
func NewProtections(cfg ProtectionsConfig, changed func()) (*Protections, error) {
	p := &Protections{cfg: cfg}
	p.dirty.Store(true)
	touch := func(any) {
		p.dirty.Store(true)
		changed()
	}
	for _, informer := range []cache.SharedIndexInformer{cfg.Namespaced, cfg.Cluster} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: touch, UpdateFunc: func(_, obj any) { touch(obj) }, DeleteFunc: touch,
		})
		if err != nil {
			return nil, err
		}
		p.synced = append(p.synced, registration.HasSynced)
	}
	return p, nil
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
			if a, ok := obj.(*policyv1alpha1.ProtectedAttribute); ok {
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
