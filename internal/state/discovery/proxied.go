package discovery

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"proviso.dev/proviso/internal/state/snapshot"
)

// proxiedGrace is how long a group version counts as proxied after its APIService is gone or has become local. The
// aggregator learns of changes from the same informer as we do, but not at the same instant: for a moment it may still
// proxy what we would treat as local, and then no server would enforce a condition.
const proxiedGrace = time.Minute

// proxied knows the group versions that another server serves. Requests for them are not admitted here.
type proxied struct {
	mu    sync.RWMutex
	until map[groupVersion]time.Time // zero: for as long as the APIService exists
}

type groupVersion struct{ group, version string }

// watchAPIServices keeps the set from the aggregator's own informer.
func watchAPIServices(services snapshot.Objects) (*proxied, cache.ResourceEventHandlerRegistration, error) {
	p := &proxied{until: map[groupVersion]time.Time{}}
	if services == nil {
		return p, nil, nil
	}
	registration, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.see(obj, false) },
		UpdateFunc: func(_, obj any) { p.see(obj, false) },
		DeleteFunc: func(obj any) { p.see(obj, true) },
	})
	return p, registration, err
}

func (p *proxied) see(obj any, gone bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	service, ok := obj.(*apiregistration.APIService)
	if !ok {
		return
	}
	gv := groupVersion{service.Spec.Group, service.Spec.Version}
	p.mu.Lock()
	defer p.mu.Unlock()
	if service.Spec.Service != nil && !gone {
		p.until[gv] = time.Time{}
		return
	}
	if end, known := p.until[gv]; known && end.IsZero() {
		p.until[gv] = time.Now().Add(proxiedGrace)
	}
}

// local reports whether this process serves a group version; without a version, or with *, whether it serves all of the
// group's.
func (p *proxied) local(group, version string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	over := func(end time.Time) bool { return !end.IsZero() && time.Now().After(end) }
	if version == "" || version == "*" {
		for gv, end := range p.until {
			if gv.group == group && !over(end) {
				return false
			}
		}
		return true
	}
	end, known := p.until[groupVersion{group, version}]
	return !known || over(end)
}
