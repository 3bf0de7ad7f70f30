package fieldfilter

import (
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/requestctx"
)

// watches are all open watches. Each of them ends when what is hidden from its caller changes: the client then watches
// again, from where it was, and gets what it may see now.
type watches struct {
	mu   sync.Mutex
	open map[*watcher]bool
}

// watcher is an open watch.
type watcher struct {
	sight *sight // without fields if nothing is hidden
	end   context.CancelFunc
}

func newWatches() *watches { return &watches{open: map[*watcher]bool{}} }

// enter adds a watch, which ends with the returned context.
func (w *watches) enter(ctx context.Context, f *Filters, seen *sight) (context.Context, func()) {
	holder := requestctx.From(ctx)
	if seen == nil {
		seen = &sight{ctx: ctx, filters: f, holder: holder, attrs: holder.Attributes()}
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{sight: seen, end: end}
	w.mu.Lock()
	w.open[one] = true
	w.mu.Unlock()
	if now := f.cfg.Store.Current(); (now.Fields != holder.Snapshot.Fields || now.Fields.HidesAny()) && !seen.same(true) {
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
	last := f.cfg.Store.Current()
	for {
		next := f.cfg.Store.Next()
		now := f.cfg.Store.Current()
		changed := now.Fields != last.Fields || now.Rules != last.Rules || now.Served != last.Served
		if now.Fields != last.Fields || now.Fields.HidesAny() {
			f.watches.check(changed)
		}
		last = now
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watches) check(rulesChanged bool) {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.open))
	w.mu.Unlock()
	for _, one := range all {
		if !one.sight.same(rulesChanged) {
			one.end()
		}
	}
}

// watching is a watch whose caller sees everything.
type watching struct {
	watch.Interface
	leave func()
}

// Stop implements watch.Interface.
func (w *watching) Stop() {
	w.leave()
	w.Interface.Stop()
}

// following is a watch that shows what its caller sees.
type following struct {
	watch.Interface
	leave func()
	out   chan watch.Event
	done  chan struct{}
	once  sync.Once
}

// follow shows the events of a watch.
func (s *store) follow(inner watch.Interface, seen *sight, leave func()) watch.Interface {
	w := &following{Interface: inner, leave: leave, out: make(chan watch.Event), done: make(chan struct{})}
	go w.run(s, seen)
	return w
}

// Stop implements watch.Interface.
func (w *following) Stop() {
	w.once.Do(func() {
		w.leave()
		close(w.done)
		w.Interface.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *following) ResultChan() <-chan watch.Event { return w.out }

func (w *following) run(s *store, seen *sight) {
	defer close(w.out)
	memo := &hiddenfield.Memo{}
	for e := range w.Interface.ResultChan() {
		select {
		case w.out <- s.event(e, seen, memo):
		case <-w.done:
			return
		}
	}
}

// event shows an event. All watches share the encoded bytes of an event: a plain object replaces them.
func (s *store) event(e watch.Event, seen *sight, memo *hiddenfield.Memo) watch.Event {
	if e.Type == watch.Bookmark || e.Type == watch.Error {
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
