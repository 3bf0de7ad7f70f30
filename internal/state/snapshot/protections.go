package snapshot

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/shadowrule"
)

// ProtectionsConfig configures the index.
type ProtectionsConfig struct {
	// Source has the protected attributes and, if that matters, the namespaces that they belong to.
	Source Source
	// ExemptUsers and ExemptGroups are identities that copy what was already admitted, in addition to the built-in
	// controllers.
	ExemptUsers, ExemptGroups []string
	MasterNamespace           string
}

// Protections is the part with the index of protected attributes. There are few of them and they change rarely, so
// every change compiles all of them.
type Protections struct {
	cfg    ProtectionsConfig
	synced []cache.InformerSynced
	dirty  atomic.Bool
	index  *protectedattr.Index
	shadow ShadowProtections
	// namespaced and cluster are nil if there are none.
	namespaced, cluster Objects

	mu     sync.Mutex
	places *places
}

// NewProtections registers with the source. changed is called after every event.
func NewProtections(cfg ProtectionsConfig, changed func()) (*Protections, error) {
	var all [3]Objects
	for i, kind := range []Kind{Namespaces, ProtectedAttributes, ClusterProtectedAttributes} {
		var err error
		if all[i], err = cfg.Source.Objects(kind); err != nil {
			return nil, err
		}
	}
	namespaces := all[0]
	p := &Protections{cfg: cfg, places: newPlaces(cfg.MasterNamespace, namespaces), namespaced: all[1], cluster: all[2]}
	p.dirty.Store(true)
	touch := func(any) {
		p.dirty.Store(true)
		changed()
	}
	for _, objects := range []Objects{p.namespaced, p.cluster} {
		if objects == nil {
			continue
		}
		registration, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
	if p.namespaced == nil {
		return p, nil
	}
	synced, err := followNamespaces(namespaces, func(name string, gone *corev1.Namespace) {
		objects, err := p.namespaced.GetIndexer().ByIndex(cache.NamespaceIndex, name)
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

// counts is false for an object that has outlived its namespace.
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
		cfg := protectedattr.Config{ExemptUsers: p.cfg.ExemptUsers, ExemptGroups: p.cfg.ExemptGroups, Master: p.cfg.MasterNamespace}
		var shadowed []shadowedProtection
		for _, a := range Of[*policyv1alpha1.ClusterProtectedAttribute](p.cluster) {
			if a.Shadowed() {
				shadowed = append(shadowed, shadowedProtection{shadowrule.OfClusterAttribute(a), protectedattr.FromCluster(a)})
			} else {
				cfg.Protections = append(cfg.Protections, protectedattr.FromCluster(a))
			}
		}
		for _, a := range Of[*policyv1alpha1.ProtectedAttribute](p.namespaced) {
			switch {
			case !p.counts(a):
			case a.Shadowed():
				shadowed = append(shadowed, shadowedProtection{shadowrule.OfAttribute(a), protectedattr.FromNamespaced(a)})
			default:
				cfg.Protections = append(cfg.Protections, protectedattr.FromNamespaced(a))
			}
		}
		index, err := protectedattr.New(cfg)
		if err != nil {
			klog.ErrorS(err, "Protected attributes have no effect")
		}
		p.index, p.shadow = index, newShadowProtections(cfg, shadowed)
	}
	next.Protect, next.Shadow.Protect = p.index, p.shadow
}
