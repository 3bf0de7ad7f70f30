package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/snapshot"
)

const (
	// remoteSettle lets a burst of changes become one.
	remoteSettle = 100 * time.Millisecond
	// remoteInterval catches what no event announces: another server that changed what it serves.
	remoteInterval = 30 * time.Second
	// remoteRetry is for servers that have not said anything yet.
	remoteRetry = 5 * time.Second
	// remoteTimeout bounds what one server that hangs can hold up.
	remoteTimeout = 10 * time.Second
)

// discoverer is the part of the snapshot that knows what is served (SV-8). What this server serves, it knows from the process and
// from the custom resource definitions. It asks other servers, each for the group versions that its APIServices give it, and
// never asks the document that puts all of it together: everybody has a say in that.
type discoverer struct {
	changed               func()
	services, definitions cache.SharedIndexInformer // definitions may be nil
	synced                []cache.InformerSynced
	wake                  chan struct{}

	mu     sync.Mutex
	custom map[string]*apiextensions.CustomResourceDefinition
	from   snapshot.Sources
	remote map[schema.GroupVersion]*metav1.APIResourceList
	stale  bool
	served *snapshot.Served
	// resources are those of them that can be listed, and heard the other servers that have said what they serve.
	resources snapshot.Resources
	heard     map[schema.GroupVersion]bool
}

func newDiscoverer(changed func(), local []*metav1.APIResourceList, services, definitions cache.SharedIndexInformer) (*discoverer, error) {
	d := &discoverer{changed: changed, services: services, definitions: definitions, wake: make(chan struct{}, 1),
		custom: map[string]*apiextensions.CustomResourceDefinition{}, remote: map[schema.GroupVersion]*metav1.APIResourceList{},
		from: snapshot.Sources{Local: local, Reserved: builtinGroups()}, stale: true}
	poke := func(any) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	registration, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, UpdateFunc: func(_, obj any) { poke(obj) }, DeleteFunc: poke,
	})
	if err != nil {
		return nil, err
	}
	d.synced = append(d.synced, registration.HasSynced)
	if definitions == nil {
		return d, nil
	}
	registration, err = definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { d.define(obj, false) },
		UpdateFunc: func(_, obj any) { d.define(obj, false) },
		DeleteFunc: func(obj any) { d.define(obj, true) },
	})
	if err != nil {
		return nil, err
	}
	d.synced = append(d.synced, registration.HasSynced)
	return d, nil
}

// builtinGroups are the groups of Kubernetes' own scheme and of ours, served or not.
func builtinGroups() []string {
	groups := registry.Groups()
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// define takes in a custom resource definition.
func (d *discoverer) define(obj any, gone bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.custom[definition.Name]
	if gone {
		delete(d.custom, definition.Name)
	} else {
		d.custom[definition.Name] = definition
	}
	was, is := []*apiextensions.CustomResourceDefinition{old}, []*apiextensions.CustomResourceDefinition{definition}
	if gone || old == nil || !reflect.DeepEqual(snapshot.CustomLists(was), snapshot.CustomLists(is)) ||
		!reflect.DeepEqual(snapshot.SelectableFields(was), snapshot.SelectableFields(is)) {
		d.stale = true
		d.changed()
	}
}

// Name implements snapshot.Part.
func (d *discoverer) Name() string { return "what is served" }

// HasSynced implements snapshot.Part. It does not wait for other servers.
func (d *discoverer) HasSynced() bool {
	return !slices.ContainsFunc(d.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Apply implements snapshot.Part.
func (d *discoverer) Apply(next *snapshot.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stale {
		custom := slices.Collect(maps.Values(d.custom))
		d.from.Custom, d.from.Selectable = snapshot.CustomLists(custom), snapshot.SelectableFields(custom)
		d.from.Remote = byPreference(d.remote)
		d.served, d.resources, d.stale = d.from.Served(), d.from.Resources(), false
		d.heard = map[schema.GroupVersion]bool{}
		for gv := range d.remote {
			d.heard[gv] = true
		}
	}
	next.Served, next.Resources, next.Heard = d.served, d.resources, d.heard
}

// run asks other servers until the context ends.
func (d *discoverer) run(ctx context.Context, loopback *rest.Config) {
	client, err := discovery.NewDiscoveryClientForConfig(loopback)
	if err != nil {
		klog.ErrorS(err, "Discovery of what other servers serve")
		return
	}
	for {
		next := remoteInterval
		if !d.ask(ctx, client.RESTClient()) {
			next = remoteRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-d.wake:
			select {
			case <-ctx.Done():
				return
			case <-time.After(remoteSettle):
			}
		}
	}
}

// ask asks every other server once. What is known of one that does not answer is kept, and that of one that is gone is
// forgotten. It tells whether all of them have been heard.
func (d *discoverer) ask(ctx context.Context, client rest.Interface) bool {
	wanted := map[schema.GroupVersion]bool{}
	for _, obj := range d.services.GetStore().List() {
		if s, ok := obj.(*apiregistration.APIService); ok && s.Spec.Service != nil {
			wanted[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}] = true
		}
	}
	d.mu.Lock()
	for gv := range d.remote {
		if !wanted[gv] {
			delete(d.remote, gv)
			d.stale = true
		}
	}
	if d.stale {
		d.changed()
	}
	d.mu.Unlock()
	var asked sync.WaitGroup
	for gv := range wanted {
		asked.Go(func() {
			if list, err := askRemote(ctx, client, gv); err != nil {
				klog.V(4).InfoS("Discovery of what another server serves", "groupVersion", gv, "err", err)
			} else {
				d.hear(gv, list)
			}
		})
	}
	asked.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.remote) == len(wanted)
}

func (d *discoverer) hear(gv schema.GroupVersion, list *metav1.APIResourceList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, known := d.remote[gv]; !known || !reflect.DeepEqual(old, list) {
		d.remote[gv] = list
		d.stale = true
		d.changed()
	}
}

// askRemote reads what another server says about a group version, and takes it for that one, whatever it claims. A server
// that answers with something else serves no kinds.
func askRemote(ctx context.Context, client rest.Interface, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	body, err := client.Get().AbsPath("/apis", gv.Group, gv.Version).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(body, list); err != nil {
		klog.InfoS("What another server says about the resources that it serves cannot be read", "groupVersion", gv, "err", err)
		list = &metav1.APIResourceList{}
	}
	list.GroupVersion = gv.String()
	return list, nil
}

// byPreference puts the lists of other servers into the order in which Kubernetes prefers versions, so that every replica
// sees the same.
func byPreference(remote map[schema.GroupVersion]*metav1.APIResourceList) (lists []*metav1.APIResourceList) {
	versions := slices.SortedFunc(maps.Keys(remote), func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	for _, gv := range versions {
		lists = append(lists, remote[gv])
	}
	return lists
}
