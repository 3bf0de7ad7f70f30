package source

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/state/snapshot"
)

// mirror holds the objects of one kind and calls its handlers in the goroutine that receives the changes. An informer
// uses queues, which hide how much of a revision has arrived; here all handlers have handled everything up to the
// revision of entry (TR-13). Handlers must not block.
type mirror struct {
	kind   snapshot.Kind
	name   string
	client cache.Getter
	// lists is where the objects come from: the client, or the storage in this process.
	lists   cache.ListerWatcher
	indexer cache.Indexer
	// moved is called when the revision is newer, even if nothing has changed.
	moved func()
	// failed is called with errors.
	failed func(error)
	// timeout is the minimum duration of a watch; 0 for the default.
	timeout time.Duration
	// keep returns what is stored of an object after all handlers were called.
	keep func(any) any

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	sum      uint64

	state  atomic.Pointer[revision.Entry]
	synced chan struct{}
	closed chan struct{}
	once   sync.Once
}

var _ snapshot.Objects = (*mirror)(nil)

func newMirror(kind snapshot.Kind, client cache.Getter, moved func()) *mirror {
	m := &mirror{
		kind: kind, name: kind.GroupResource().String(), client: client, moved: moved, failed: func(error) {}, keep: withoutManagers,
		indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		synced:  make(chan struct{}), closed: make(chan struct{}),
	}
	if client != nil {
		m.lists = cache.NewFilteredListWatchFromClient(client, kind.Resource, metav1.NamespaceAll, func(*metav1.ListOptions) {})
	}
	if kind.Group == rbacv1.GroupName {
		m.keep = stubOf
		m.indexer = cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	}
	m.state.Store(&revision.Entry{Source: m.name})
	return m
}

// run lists and watches until the context ends.
func (m *mirror) run(ctx context.Context) {
	cache.New(&cache.Config{
		Queue: queue{m}, ListerWatcher: m.lists, ObjectType: m.kind.Example, MinWatchTimeout: m.timeout,
		Process: func(any, bool) error { return nil }, // nothing is queued
		WatchErrorHandlerWithContext: func(ctx context.Context, r *cache.Reflector, err error) {
			m.failed(err)
			cache.DefaultWatchErrorHandler(ctx, r, err)
		},
	}).RunWithContext(ctx)
}

// entry returns how recent the mirror is: everything up to it has been handled.
func (m *mirror) entry() revision.Entry { return *m.state.Load() }

// LastSyncResourceVersion is the revision as the server spells it; empty before the first list.
func (m *mirror) LastSyncResourceVersion() string {
	if at := m.entry().At; at != 0 {
		return strconv.FormatUint(at, 10)
	}
	return ""
}

// GetIndexer implements snapshot.Objects. Of RBAC it holds stubs: the rules are made of those objects when they come,
// and nobody reads them later.
func (m *mirror) GetIndexer() cache.Indexer { return m.indexer }

// AddEventHandler implements snapshot.Objects. A handler that comes late is told of what is there before it returns,
// and refused if that is not known any more.
func (m *mirror) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := m.indexer.List()
	if len(there) > 0 {
		if _, slim := there[0].(*stub); slim {
			return nil, fmt.Errorf("%s are known only to those who asked before they were read", m.name)
		}
	}
	m.handlers = append(m.handlers, h)
	for _, obj := range there {
		h.OnAdd(obj, true)
	}
	return queue{m}, nil
}

// put adds or replaces an object.
func (m *mirror) put(obj any) error {
	old, existed, err := m.indexer.Get(obj)
	if err != nil {
		return err
	}
	if err := m.indexer.Update(m.keep(obj)); err != nil {
		return err
	}
	m.sum += markOf(obj)
	if existed {
		m.sum -= markOf(old)
		old = m.whole(old)
	}
	for _, h := range m.handlers {
		if existed {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, !m.hasSynced())
		}
	}
	return nil
}

// drop deletes an object. told is what handlers get: the last state, or that it is not known.
func (m *mirror) drop(obj, told any) error {
	old, existed, err := m.indexer.Get(obj)
	if err != nil || !existed {
		return err
	}
	if err := m.indexer.Delete(obj); err != nil {
		return err
	}
	m.sum -= markOf(old)
	for _, h := range m.handlers {
		h.OnDelete(told)
	}
	return nil
}

// reach records a revision up to which everything has been handled.
func (m *mirror) reach(version string) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		at = m.entry().At // not a number, so it cannot be compared; claim nothing newer
	}
	m.state.Store(&revision.Entry{Source: m.name, At: at, State: revision.State(m.sum)})
	m.moved()
}

// replace applies a whole list: additions first, deletions last. So a deny that was rebound under another name is never
// missing in between.
func (m *mirror) replace(objects []any, version string) error {
	there := make(map[string]bool, len(objects))
	for _, obj := range objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		there[key] = true
	}
	for _, obj := range objects {
		if old, exists, err := m.indexer.Get(obj); err != nil {
			return err
		} else if exists && versionOf(old) == versionOf(obj) {
			continue
		}
		if err := m.put(obj); err != nil {
			return err
		}
	}
	for _, key := range m.indexer.ListKeys() {
		if there[key] {
			continue
		}
		if old, exists, err := m.indexer.GetByKey(key); err != nil {
			return err
		} else if exists {
			if err := m.drop(old, cache.DeletedFinalStateUnknown{Key: key, Obj: m.whole(old)}); err != nil {
				return err
			}
		}
	}
	m.reach(version)
	if !m.hasSynced() {
		close(m.synced)
	}
	return nil
}

func (m *mirror) hasSynced() bool {
	select {
	case <-m.synced:
		return true
	default:
		return false
	}
}

func markOf(obj any) uint64 {
	if s, slim := obj.(*stub); slim {
		return s.mark
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	return revision.Mark(string(o.GetUID()), o.GetResourceVersion())
}

func versionOf(obj any) string {
	if s, slim := obj.(*stub); slim {
		return s.version
	}
	if o, err := meta.Accessor(obj); err == nil {
		return o.GetResourceVersion()
	}
	return ""
}

// queue is the mirror as the reflector sees it: a queue without waiting.
type queue struct{ m *mirror }

var (
	_ cache.Queue                            = queue{}
	_ cache.ReflectorBookmarkStore           = queue{}
	_ cache.ResourceEventHandlerRegistration = queue{}
)

// Add implements cache.ReflectorStore.
func (q queue) Add(obj any) error { return q.Update(obj) }

// Update implements cache.ReflectorStore.
func (q queue) Update(obj any) error {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	if err := q.m.put(obj); err != nil {
		return err
	}
	q.m.reach(versionOf(obj))
	return nil
}

// Delete implements cache.ReflectorStore. The version of an object that a watch tells to be deleted is that of the
// deletion.
func (q queue) Delete(obj any) error {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	if err := q.m.drop(obj, obj); err != nil {
		return err
	}
	q.m.reach(versionOf(obj))
	return nil
}

// Replace implements cache.ReflectorStore.
func (q queue) Replace(objects []any, version string) error {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	return q.m.replace(objects, version)
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (q queue) Bookmark(version string) error {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	q.m.reach(version)
	return nil
}

// Resync implements cache.ReflectorStore: there is no reason to.
func (queue) Resync() error { return nil }

// Pop implements cache.Queue.
func (q queue) Pop(cache.PopProcessFunc) (any, error) {
	<-q.m.closed
	return nil, cache.ErrFIFOClosed
}

// Close implements cache.Queue.
func (q queue) Close() { q.m.once.Do(func() { close(q.m.closed) }) }

// HasSynced implements cache.Queue, and is true once the first list has been handled.
func (q queue) HasSynced() bool { return q.m.hasSynced() }

// HasSyncedChecker implements cache.Queue.
func (q queue) HasSyncedChecker() cache.DoneChecker { return q }

// Name implements cache.DoneChecker.
func (q queue) Name() string { return q.m.name }

// Done implements cache.DoneChecker.
func (q queue) Done() <-chan struct{} { return q.m.synced }
