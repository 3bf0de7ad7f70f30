package source

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// InformersConfig configures where informers get their objects.
type InformersConfig struct {
	// Cluster reaches the built-in kinds.
	Cluster Cluster
	// Stored reads kinds that this process stores; nil if it stores none.
	Stored Stored
	// Given are informers that other components run, by kind: those of custom resource definitions.
	Given map[schema.GroupVersionResource]snapshot.Objects
	// Groups reaches our own groups.
	Groups Groups
	// Served knows which kinds of ours are served.
	Served Served
	// Health is told about failures.
	Health *Health
	// Unreadable returns why an object of a built-in kind stands for bytes that cannot be read; nil if none does.
	Unreadable func(runtime.Object) string
	// Warner is told that something is wrong with an object; may be nil.
	Warner Warner
}

// Cluster reaches the built-in kinds.
type Cluster interface {
	Kubernetes() (kubernetes.Interface, error)
}

// Groups reaches our own groups.
type Groups interface {
	Group(schema.GroupVersion) (*rest.RESTClient, error)
}

// Stored reads kinds in this process, instead of asking the cluster.
type Stored interface {
	// ListerWatcher returns nil for a kind that is not stored here.
	ListerWatcher(snapshot.Kind) cache.ListerWatcher
}

// Served knows which kinds of ours are served.
type Served interface {
	Serves(snapshot.Kind) (bool, error)
}

// ServedFunc is a function that implements Served.
type ServedFunc func(snapshot.Kind) (bool, error)

// Serves implements Served.
func (f ServedFunc) Serves(kind snapshot.Kind) (bool, error) { return f(kind) }

// Warner tells readers of an object that something is wrong with it.
type Warner interface {
	Warn(obj runtime.Object, reason, message string)
}

// Informers is the source of a host that decides for a running cluster: in the server itself, or for a cluster
// elsewhere.
type Informers struct {
	cfg InformersConfig

	mu      sync.Mutex
	mirrors map[schema.GroupVersionResource]*mirror
	given   map[schema.GroupVersionResource]*dated
	moved   func()
}

var (
	_ snapshot.Source = (*Informers)(nil)
	_ snapshot.Dated  = (*Informers)(nil)
)

// NewInformers returns the source; it does not connect yet.
func NewInformers(cfg InformersConfig) *Informers {
	return &Informers{cfg: cfg, mirrors: map[schema.GroupVersionResource]*mirror{}, given: map[schema.GroupVersionResource]*dated{}, moved: func() {}}
}

// Objects implements snapshot.Source. The first who asks for a kind makes its mirror; nothing is asked for before Run.
func (s *Informers) Objects(kind snapshot.Kind) (snapshot.Objects, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if objects, given := s.cfg.Given[kind.GroupVersionResource]; given {
		if s.given[kind.GroupVersionResource] == nil {
			s.given[kind.GroupVersionResource] = &dated{name: kind.GroupResource().String(), objects: objects}
		}
		return objects, nil
	}
	if m := s.mirrors[kind.GroupVersionResource]; m != nil {
		return m, nil
	}
	m, err := s.mirror(kind)
	if m == nil {
		return nil, err
	}
	s.mirrors[kind.GroupVersionResource] = m
	return m, err
}

// mirror creates the mirror of a kind. Readiness depends on our kinds and on RBAC: only those are policy.
func (s *Informers) mirror(kind snapshot.Kind) (*mirror, error) {
	changed := func() { s.moved() }
	if !isOwn(kind) {
		client, err := s.builtin(kind)
		if err != nil {
			return nil, err
		}
		m := newMirror(kind, client, changed)
		if s.cfg.Stored != nil {
			if lists := s.cfg.Stored.ListerWatcher(kind); lists != nil {
				m.lists = lists
			}
		}
		if kind.Group != rbacv1.GroupName {
			return m, nil
		}
		s.cfg.Health.watch(kind.Resource, m)
		if s.cfg.Unreadable != nil {
			return m, watchUnreadable(kind.Resource, m, s.cfg.Health, s.cfg.Unreadable)
		}
		return m, nil
	}
	if served, err := s.cfg.Served.Serves(kind); err != nil || !served {
		return nil, err
	}
	client, err := s.cfg.Groups.Group(kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	m := newMirror(kind, client, changed)
	s.cfg.Health.watch(kind.Resource, m)
	return m, watchQuarantined(kind.Resource, m, s.cfg.Health, s.cfg.Warner)
}

// builtin returns a client for a built-in kind.
func (s *Informers) builtin(kind snapshot.Kind) (cache.Getter, error) {
	client, err := s.cfg.Cluster.Kubernetes()
	if err != nil {
		return nil, err
	}
	switch kind.Group {
	case rbacv1.GroupName:
		return client.RbacV1().RESTClient(), nil
	case corev1.GroupName:
		return client.CoreV1().RESTClient(), nil
	}
	return nil, fmt.Errorf("%s are not a source of policy", kind.GroupResource())
}

// RoleExists reports whether a role exists, as far as it has been read.
func (s *Informers) RoleExists(_ context.Context, kind, namespace, name string) (bool, error) {
	of, key := snapshot.Roles, namespace+"/"+name
	switch kind {
	case protectedattr.KindClusterRole:
		of, key = snapshot.ClusterRoles, name
	case protectedattr.KindPolicyRole:
		of, key = snapshot.Policies, namespace+"/"+policyv1alpha1.PolicyName
	}
	s.mu.Lock()
	roles := s.mirrors[of.GroupVersionResource]
	s.mu.Unlock()
	if roles == nil || !roles.hasSynced() {
		return false, fmt.Errorf("%s are not known here yet", of.Resource)
	}
	found, exists, err := roles.GetIndexer().GetByKey(key)
	if container, ok := found.(*policyv1alpha1.Policy); ok {
		_, exists = container.Roles[name]
	}
	return exists, err
}

// isOwn reports whether a kind is in one of our groups.
func isOwn(kind snapshot.Kind) bool { return slices.Contains(policycodec.Groups(), kind.Group) }

// Run reads objects until the context ends. Call Objects for all kinds before.
func (s *Informers) Run(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mirrors {
		go m.run(ctx)
	}
	if s.cfg.Health != nil {
		s.cfg.Health.follow(ctx, s.Newest)
	}
}
