package server

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/snapshot"
)

const (
	// discoverySettle lets a burst of changes (a chart full of custom resource definitions) become one.
	discoverySettle = 100 * time.Millisecond
	// discoveryInterval catches what no event announces: another server of the cluster that changed what it serves.
	discoveryInterval = 30 * time.Second
)

// discoverer is the part of the snapshot that knows what is served. It asks discovery like any client, whenever an APIService
// or a custom resource definition changes.
type discoverer struct {
	changed func()
	wake    chan struct{}

	mu     sync.Mutex
	lists  []*metav1.APIResourceList
	served *snapshot.Served
	// resources are those of them that can be listed.
	resources snapshot.Resources
}

func newDiscoverer(changed func(), informers ...cache.SharedIndexInformer) (*discoverer, error) {
	d := &discoverer{changed: changed, wake: make(chan struct{}, 1)}
	poke := func(any) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	for _, informer := range informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: poke, UpdateFunc: func(_, obj any) { poke(obj) }, DeleteFunc: poke,
		}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Name implements snapshot.Part.
func (d *discoverer) Name() string { return "discovery" }

// HasSynced implements snapshot.Part.
func (d *discoverer) HasSynced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.served != nil
}

// Apply implements snapshot.Part.
func (d *discoverer) Apply(next *snapshot.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next.Served, next.Resources = d.served, d.resources
}

// run asks until the context ends.
func (d *discoverer) run(ctx context.Context, loopback *rest.Config) {
	client, err := discovery.NewDiscoveryClientForConfig(loopback)
	if err != nil {
		klog.ErrorS(err, "Discovery of what is served")
		return
	}
	for {
		next := discoveryInterval
		if err := d.ask(client); err != nil {
			klog.V(4).InfoS("Discovery of what is served", "err", err)
			next = discoverySettle
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-d.wake:
			select {
			case <-ctx.Done():
				return
			case <-time.After(discoverySettle):
			}
		}
	}
}

// ask keeps what is known of a group whose server does not answer: discovery reports the rest and an error.
func (d *discoverer) ask(client discovery.DiscoveryInterface) error {
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil && (len(lists) == 0 || !discovery.IsGroupDiscoveryFailedError(err)) {
		return err
	}
	lists = byPreference(groups, lists)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.served == nil || !reflect.DeepEqual(lists, d.lists) {
		d.lists, d.served, d.resources = lists, snapshot.NewServed(lists), snapshot.NewResources(lists)
		d.changed()
	}
	return nil
}

// byPreference puts the lists into the order of their groups, and those of a group into its order of preference: aggregated
// discovery gives them in none at all.
func byPreference(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	rank := map[string]int{}
	for _, group := range groups {
		for _, version := range group.Versions {
			rank[version.GroupVersion] = len(rank)
		}
	}
	slices.SortFunc(lists, func(a, b *metav1.APIResourceList) int {
		return cmp.Or(cmp.Compare(rank[a.GroupVersion], rank[b.GroupVersion]), cmp.Compare(a.GroupVersion, b.GroupVersion))
	})
	return lists
}
