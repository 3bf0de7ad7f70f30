package fieldfilter

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/readfilter"
)

// watches are the open watches of resources without hidden fields. Each of them ends when a field of its resource
// becomes hidden: the client then watches again, from where it was, and gets what it may see now. Watches of resources
// with hidden fields are readfilter.Sights.
type watches struct {
	mu   sync.Mutex
	open map[*watcher]bool
}

// watcher is an open watch.
type watcher struct {
	resource fieldperm.Resource
	end      context.CancelFunc
}

func newWatches() *watches { return &watches{open: map[*watcher]bool{}} }

// enter adds a watch, which ends with the returned context.
func (w *watches) enter(ctx context.Context, f *Filters, resource fieldperm.Resource) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	one := &watcher{resource, end}
	w.mu.Lock()
	w.open[one] = true
	w.mu.Unlock()
	if len(f.cfg.Store.Current().Fields.Hidden(resource)) > 0 {
		end() // the policy has changed since the request came
	}
	return ctx, func() {
		end()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, one)
	}
}

// Run ends watches when what is hidden changes. The store also publishes when a right begins or ends with time.
func (f *Filters) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { f.sights.Run(ctx) })
	var last *fieldperm.Table
	for {
		next := f.cfg.Store.Next()
		if now := f.cfg.Store.Current().Fields; now != last {
			f.watches.check(now)
			last = now
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watches) check(fields *fieldperm.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.open {
		if len(fields.Hidden(one.resource)) > 0 {
			one.end()
		}
	}
}

// watching is a watch of a resource without hidden fields.
type watching struct {
	watch.Interface
	leave func()
}

// Stop implements watch.Interface.
func (w *watching) Stop() {
	w.leave()
	w.Interface.Stop()
}

// seeing shows the events of an open watch.
type seeing struct {
	store   *store
	request context.Context
	sight   atomic.Pointer[sight]
	memo    hiddenfield.Memo
}

var _ readfilter.Sight = (*seeing)(nil)

func (s *store) seeing(ctx context.Context, seen *sight) *seeing {
	w := &seeing{store: s, request: ctx}
	w.sight.Store(seen)
	return w
}

// Show implements readfilter.Sight.
func (w *seeing) Show(e watch.Event) watch.Event { return w.store.event(e, w.sight.Load(), &w.memo) }

// Same implements readfilter.Sight.
func (w *seeing) Same(ctx context.Context) bool {
	before := w.sight.Load()
	next := before.under(w.request, before.again(ctx))
	if next == nil {
		return false
	}
	w.sight.Store(next)
	return true
}

// event shows an event. All watches share the encoded bytes of an event: a plain object replaces them.
func (s *store) event(e watch.Event, seen *sight, memo *hiddenfield.Memo) watch.Event {
	if e.Type == watch.Bookmark || e.Type == watch.Error || len(seen.fields) == 0 {
		return e
	}
	o := e.Object
	if cached, ok := o.(runtime.CacheableObject); ok {
		o = cached.GetObject()
	}
	shown, err := seen.show(o, s.scheme, memo)
	if err != nil {
		return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: s.unshown(err).Error()}}
	}
	return watch.Event{Type: e.Type, Object: shown}
}
