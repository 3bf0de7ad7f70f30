package readfilter

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/request/requestctx"
)

// targets are the stores of the targets of connections.
type targets struct {
	mu     sync.Mutex
	stores map[schema.GroupResource]target
}

type target struct {
	*store
	empty runtime.Object
}

func (t *targets) put(s *store, empty runtime.Object) {
	switch s.resource {
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"}, schema.GroupResource{Resource: "nodes"}:
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stores == nil {
		t.stores = map[schema.GroupResource]target{}
	}
	t.stores[s.resource] = target{s, empty}
}

func (t *targets) of(resource schema.GroupResource) (target, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.stores[resource]
	return found, ok
}

// Target reads the target of a connection.
func (s *Stores) Target(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	from, ok := s.targets.of(resource)
	if !ok {
		return nil, fmt.Errorf("%s are not stored here", resource)
	}
	object := from.empty.DeepCopyObject()
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	m.SetNamespace(namespace)
	m.SetName(name)
	key, err := from.keyOf(object)
	if err != nil {
		return nil, err
	}
	read := from.empty.DeepCopyObject()
	return read, from.Interface.Get(ctx, key, storage.GetOptions{}, read)
}

// connect decides a connection again, on the state of its target that the handler reads and uses. A target that does
// not meet the conditions, or cannot be read, is not found, like a name that does not exist.
func (s *store) connect(ctx context.Context, c requestctx.Connection, key string, opts storage.GetOptions, out runtime.Object) error {
	err := s.Interface.Get(ctx, key, storage.GetOptions{ResourceVersion: opts.ResourceVersion}, out)
	switch {
	case storage.IsNotFound(err):
		return s.missing(ctx, key, opts, out)
	case err != nil:
		s.annotate(ctx, requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: err})
		return s.missing(ctx, key, opts, out)
	}
	if err := c.Decide(ctx, out.DeepCopyObject()); err != nil {
		return s.missing(ctx, key, opts, out)
	}
	return nil
}
