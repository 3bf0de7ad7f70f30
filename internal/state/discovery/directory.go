package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// remoteSettle merges a burst of changes into one.
	remoteSettle = 100 * time.Millisecond
	// remoteInterval catches changes without an event: another server that changed what it serves.
	remoteInterval = 30 * time.Second
	// remoteRetry is for servers that have not answered yet.
	remoteRetry = 5 * time.Second
	// remoteTimeout bounds the delay by a server that hangs.
	remoteTimeout = 10 * time.Second
)

// Config is what a directory needs before anything is served.
type Config struct {
	// Changed is called when the served resources change.
	Changed func()
	// Reserved are the groups that are built-in, served or not.
	Reserved []string
	// Clients reach other servers, through this one; nil if there are none.
	Clients *selfclient.Clients
	// Codecs write errors.
	Codecs runtime.NegotiatedSerializer
}

// World is what is known once the servers of a process exist.
type World struct {
	// Local is what this process itself serves.
	Local []*metav1.APIResourceList
	// Services are the APIServices; nil if there are none.
	Services snapshot.Objects
	// Definitions are the custom resource definitions; nil if there are none.
	Definitions snapshot.Objects
	// Remote is what other servers have reported, for a host that does not ask any.
	Remote []*metav1.APIResourceList
}

// Directory is the part of the snapshot that knows what is served (SV-8). What this server serves, it knows from the
// process and from the custom resource definitions. It asks other servers, each for the group versions that its
// APIServices give it. It never uses the aggregated discovery document, which every server can influence.
//
// It is made before the servers are, and told once of the world. Until then nothing is served, nothing is local and
// nothing is synced.
type Directory struct {
	cfg   Config
	world atomic.Pointer[watched]
	wake  chan struct{}
	// stored is filled while the servers are made.
	stored stored

	mu     sync.Mutex
	custom map[string]*defined
	// ahead is one that was found before the definitions were read again.
	ahead *defined
	// definitions are where these come from, and version is the version of them when they were last read.
	definitions snapshot.Objects
	version     string
	from        snapshot.Sources
	remote      map[schema.GroupVersion]*metav1.APIResourceList
	stale       bool
	served      *snapshot.Served
	// resources are the resources that can be listed, and heard the other servers that have reported what they serve.
	resources snapshot.Resources
	heard     map[schema.GroupVersion]bool
}

// watched is the world with its watchers.
type watched struct {
	known      *knownAPIs
	proxied    *proxied
	services   snapshot.Objects
	definition func(schema.GroupKind) *apiextensions.CustomResourceDefinition
	synced     []cache.InformerSynced
}

// NewDirectory returns an empty directory.
func NewDirectory(cfg Config) *Directory {
	return &Directory{cfg: cfg, wake: make(chan struct{}, 1),
		custom: map[string]*defined{}, remote: map[schema.GroupVersion]*metav1.APIResourceList{},
		from: snapshot.Sources{Reserved: cfg.Reserved}, stale: true}
}

// Watch gives it the world, once.
func (d *Directory) Watch(world World) error {
	if d.world.Load() != nil {
		return errors.New("what is served is known already")
	}
	w := &watched{known: newKnownAPIs(world, d.knows), services: world.Services, definition: noDefinition}
	d.mu.Lock()
	d.from.Local, d.stale = world.Local, true
	d.mu.Unlock()
	if err := d.watchServices(w); err != nil {
		return err
	}
	if err := d.watchDefinitions(w, world.Definitions); err != nil {
		return err
	}
	for _, list := range world.Remote {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.remote[gv] = list
		d.mu.Unlock()
		w.proxied.until[groupVersion{gv.Group, gv.Version}] = time.Time{}
	}
	d.world.Store(w)
	return nil
}

func noDefinition(schema.GroupKind) *apiextensions.CustomResourceDefinition { return nil }

func (d *Directory) watchServices(w *watched) error {
	var err error
	var known cache.ResourceEventHandlerRegistration
	if w.proxied, known, err = watchAPIServices(w.services); err != nil || w.services == nil {
		return err
	}
	poke := func(any) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	registration, err := w.services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, UpdateFunc: func(_, obj any) { poke(obj) }, DeleteFunc: poke,
	})
	if err != nil {
		return err
	}
	w.synced = append(w.synced, known.HasSynced, registration.HasSynced)
	return nil
}

func (d *Directory) watchDefinitions(w *watched, definitions snapshot.Objects) error {
	if definitions == nil {
		return nil
	}
	var err error
	if w.definition, err = definitionsByKind(definitions); err != nil {
		return err
	}
	d.mu.Lock()
	d.definitions = definitions
	d.mu.Unlock()
	registration, err := definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: d.define, UpdateFunc: func(_, obj any) { d.define(obj) }, DeleteFunc: d.define,
	})
	if err != nil {
		return err
	}
	w.synced = append(w.synced, registration.HasSynced)
	return nil
}

// Local reports whether this process serves a group version; without a version, or with *, whether it serves all of the
// group's.
func (d *Directory) Local(group, version string) bool {
	w := d.world.Load()
	return w != nil && w.proxied.local(group, version) && !w.known.proxied(schema.GroupVersion{Group: group, Version: version})
}

// Serves reports whether this process itself serves a group version.
func (d *Directory) Serves(gv schema.GroupVersion) bool {
	w := d.world.Load()
	return w != nil && w.known.local[gv]
}

// Custom reports whether only custom resource definitions can serve a group in this process.
func (d *Directory) Custom(group string) bool {
	w := d.world.Load()
	return w != nil && !w.known.groups[group]
}

// Definition returns the definition of a custom kind; nil if there is none.
func (d *Directory) Definition(kind schema.GroupKind) *apiextensions.CustomResourceDefinition {
	if w := d.world.Load(); w != nil {
		return w.definition(kind)
	}
	return nil
}

// define handles the event of a definition. What it defines is found before anything is locked: that takes long with
// large schemas.
func (d *Directory) define(obj any) {
	if definition, ok := obj.(*apiextensions.CustomResourceDefinition); ok {
		d.defined(definition)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reread(); d.stale {
		d.cfg.Changed()
	}
}

// defined returns what a definition defines, found once.
func (d *Directory) defined(definition *apiextensions.CustomResourceDefinition) *defined {
	d.mu.Lock()
	old, ahead := d.custom[definition.Name], d.ahead
	d.mu.Unlock()
	for _, known := range []*defined{old, ahead} {
		if known != nil && known.definition == definition {
			return known
		}
	}
	is := newDefined(definition, old)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead = is
	return is
}

// reread reads the definitions, of which events may tell later: they come through a queue, and the revision of a
// snapshot is that of the definitions themselves (TR-13). d.mu must be held.
func (d *Directory) reread() {
	if d.definitions == nil {
		return
	}
	version := d.definitions.GetIndexer().LastStoreSyncResourceVersion() // before they are listed
	if version == d.version && version != "" {
		return
	}
	now := map[string]bool{}
	for _, definition := range snapshot.Of[*apiextensions.CustomResourceDefinition](d.definitions) {
		now[definition.Name] = true
		old := d.custom[definition.Name]
		if old != nil && old.definition == definition {
			continue
		}
		is := d.ahead
		if is == nil || is.definition != definition {
			is = newDefined(definition, old)
		}
		d.custom[definition.Name] = is
		d.stale = d.stale || old == nil || old.differs(is)
	}
	for name := range d.custom {
		if !now[name] {
			delete(d.custom, name)
			d.stale = true
		}
	}
	d.version, d.ahead = version, nil
}

// defined is a definition and what it takes long to find in it.
type defined struct {
	definition *apiextensions.CustomResourceDefinition
	shapes     snapshot.Shapes
}

// newDefined returns what a definition defines. The shapes are those of its last version if its spec is the same.
func newDefined(definition *apiextensions.CustomResourceDefinition, old *defined) *defined {
	if old != nil && old.definition.UID == definition.UID && old.definition.Generation == definition.Generation && definition.Generation != 0 {
		return &defined{definition, old.shapes}
	}
	return &defined{definition, snapshot.ShapesOf(definition)}
}

// differs reports whether something else is served because of a definition than because of its last version.
func (d *defined) differs(o *defined) bool {
	was, is := []*apiextensions.CustomResourceDefinition{d.definition}, []*apiextensions.CustomResourceDefinition{o.definition}
	return !d.shapes.Equal(o.shapes) || !reflect.DeepEqual(snapshot.CustomLists(was), snapshot.CustomLists(is)) ||
		!reflect.DeepEqual(snapshot.SelectableFields(was), snapshot.SelectableFields(is)) ||
		!reflect.DeepEqual(snapshot.ConvertedResources(was), snapshot.ConvertedResources(is))
}

// knows reports whether a snapshot knows the shapes of a definition as it is now.
func (d *Directory) knows(snap *snapshot.Snapshot, definition *apiextensions.CustomResourceDefinition) bool {
	shapes, known := snap.Served.Shapes(schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural})
	if !known || shapes.Generation == definition.Generation && shapes.UID == definition.UID {
		return known
	}
	return shapes.Equal(d.defined(definition).shapes)
}

// Name implements snapshot.Part.
func (d *Directory) Name() string { return snapshot.WhatIsServed }

// HasSynced implements snapshot.Part. It does not wait for other servers.
func (d *Directory) HasSynced() bool {
	w := d.world.Load()
	return w != nil && !slices.ContainsFunc(w.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Apply implements snapshot.Part.
func (d *Directory) Apply(next *snapshot.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reread()
	if d.stale {
		var custom []*apiextensions.CustomResourceDefinition
		shapes := map[schema.GroupResource]snapshot.Shapes{}
		for _, c := range d.custom {
			custom = append(custom, c.definition)
			shapes[schema.GroupResource{Group: c.definition.Spec.Group, Resource: c.definition.Spec.Names.Plural}] = c.shapes
		}
		d.from.Custom, d.from.Selectable = snapshot.CustomLists(custom), snapshot.SelectableFields(custom)
		d.from.Converted, d.from.Shapes = snapshot.ConvertedResources(custom), shapes
		d.from.Remote = byPreference(d.remote)
		d.served, d.resources, d.stale = d.from.Served(), d.from.Resources(), false
		d.heard = map[schema.GroupVersion]bool{}
		for gv := range d.remote {
			d.heard[gv] = true
		}
	}
	next.Served, next.Resources, next.Heard = d.served, d.resources, d.heard
}

// Run asks other servers until the context ends.
func (d *Directory) Run(ctx context.Context) {
	w := d.world.Load()
	if d.cfg.Clients == nil || w == nil || w.services == nil {
		return
	}
	client, err := discovery.NewDiscoveryClientForConfig(d.cfg.Clients.Config())
	if err != nil {
		klog.ErrorS(err, "Discovery of what other servers serve")
		return
	}
	for {
		next := remoteInterval
		if !d.ask(ctx, client.RESTClient(), w.services) {
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

// ask asks every other server once. It keeps what is known about a server that does not answer, and drops what is known
// about one that is gone. It reports whether all of them have answered at some time.
func (d *Directory) ask(ctx context.Context, client rest.Interface, services snapshot.Objects) bool {
	wanted := map[schema.GroupVersion]bool{}
	for _, s := range snapshot.Of[*apiregistration.APIService](services) {
		if s.Spec.Service != nil {
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
		d.cfg.Changed()
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

func (d *Directory) hear(gv schema.GroupVersion, list *metav1.APIResourceList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, known := d.remote[gv]; !known || !reflect.DeepEqual(old, list) {
		d.remote[gv] = list
		d.stale = true
		d.cfg.Changed()
	}
}

// askRemote reads what another server says about a group version, and uses it only for that one, whatever the answer
// claims. A server that answers with something else serves no kinds.
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

// byPreference sorts the lists of other servers in the order in which Kubernetes prefers versions, so every replica
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
