package source

import (
	"context"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/snapshot"
)

// InformersConfig says where informers get their objects.
type InformersConfig struct {
	// Kube has the built-in kinds. Whoever made it starts it.
	Kube informers.SharedInformerFactory
	// Given are informers that others run, by the kind they have: those of custom resource definitions.
	Given map[schema.GroupVersionResource]snapshot.Objects
	// Client reaches one of our own groups.
	Client func(schema.GroupVersion) (cache.Getter, error)
	// Serves tells which kinds of ours are served.
	Serves func(snapshot.Kind) (bool, error)
	// Health is told how they fare.
	Health *Health
	// Unreadable tells why an object of a built-in kind stands for bytes that cannot be read; nil if none does.
	Unreadable func(runtime.Object) string
	// Tell tells whoever looks at an object that something is wrong with it; nil if nobody is told.
	Tell func(obj runtime.Object, reason, message string)
}

// Informers is the source of a host that runs beside what it decides about: in the server itself, or with a cluster
// elsewhere.
type Informers struct {
	cfg InformersConfig

	mu    sync.Mutex
	own   map[schema.GroupVersionResource]cache.SharedIndexInformer
	known map[schema.GroupVersionResource]bool
}

var _ snapshot.Source = (*Informers)(nil)

// NewInformers returns the source; it asks nobody yet.
func NewInformers(cfg InformersConfig) *Informers {
	return &Informers{cfg: cfg, own: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, known: map[schema.GroupVersionResource]bool{}}
}

// Objects implements snapshot.Source. The first who asks for a kind makes its informer; nothing is asked for before
// Run.
func (s *Informers) Objects(kind snapshot.Kind) (snapshot.Objects, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if objects, given := s.cfg.Given[kind.GroupVersionResource]; given {
		return objects, nil
	}
	if !isOwn(kind) {
		return s.builtin(kind)
	}
	if informer := s.own[kind.GroupVersionResource]; informer != nil {
		return informer, nil
	}
	if served, err := s.cfg.Serves(kind); err != nil || !served {
		return nil, err
	}
	client, err := s.cfg.Client(kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	list := cache.NewFilteredListWatchFromClient(client, kind.Resource, metav1.NamespaceAll, func(*metav1.ListOptions) {})
	informer := cache.NewSharedIndexInformer(list, kind.Example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := watchQuarantined(kind.Resource, informer, s.cfg.Health, s.cfg.Tell); err != nil {
		return nil, err
	}
	if err := s.cfg.Health.watch(kind.Resource, informer); err != nil {
		return nil, err
	}
	s.own[kind.GroupVersionResource] = informer
	return informer, nil
}

// builtin is an informer of the factory. Only those of RBAC are policy, so that readiness depends on them.
func (s *Informers) builtin(kind snapshot.Kind) (snapshot.Objects, error) {
	generic, err := s.cfg.Kube.ForResource(kind.GroupVersionResource)
	if err != nil {
		return nil, err
	}
	informer := generic.Informer()
	if kind.Group == rbacv1.GroupName && !s.known[kind.GroupVersionResource] {
		if err := s.cfg.Health.watch(kind.Resource, informer); err != nil {
			return nil, err
		}
		if s.cfg.Unreadable != nil {
			if err := watchUnreadable(kind.Resource, informer, s.cfg.Health, s.cfg.Unreadable); err != nil {
				return nil, err
			}
		}
		s.known[kind.GroupVersionResource] = true
	}
	return informer, nil
}

// isOwn tells the kinds of our groups.
func isOwn(kind snapshot.Kind) bool { return slices.Contains(registry.Groups(), kind.Group) }

// Run asks for objects of our groups until the context ends. All of them must have been asked for by then.
func (s *Informers) Run(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, informer := range s.own {
		go informer.RunWithContext(ctx)
	}
}
