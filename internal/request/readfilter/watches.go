package readfilter

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// watches are the open ones that end when their caller may see something else.
type watches struct {
	mu   sync.Mutex
	open map[*watching]bool
}

// watching is one of them.
type watching struct {
	inner watch.Interface
	out   chan watch.Event
	attrs authorizer.Attributes
	// narrowing is what it was narrowed to; nil if nothing was.
	narrowing *requestctx.Narrowing
	snapshot  *snapshot.Snapshot
	stopped   chan struct{}
	expired   chan struct{}
	stop      sync.Once
	expire    sync.Once
	all       *watches
}

var _ watch.Interface = (*watching)(nil)

func (ws *watches) follow(inner watch.Interface, attrs authorizer.Attributes, n *requestctx.Narrowing, snap *snapshot.Snapshot) *watching {
	w := &watching{inner: inner, out: make(chan watch.Event), attrs: attrs, narrowing: n, snapshot: snap,
		stopped: make(chan struct{}), expired: make(chan struct{}), all: ws}
	ws.mu.Lock()
	if ws.open == nil {
		ws.open = map[*watching]bool{}
	}
	ws.open[w] = true
	ws.mu.Unlock()
	go w.run()
	return w
}

// follow checks at once what has changed since the request was authorized: nobody would until the next change.
func (s *Stores) follow(ctx context.Context, inner watch.Interface, holder *requestctx.State) watch.Interface {
	w := s.watches.follow(inner, holder.Attributes(), holder.Get(requestctx.Request).Narrowing(), holder.Snapshot)
	s.watches.check(ctx, s.cfg.Gate, s.cfg.Store.Current(), w)
	return w
}

// recheck follows a watch that was allowed without a condition by rules of the index.
func (s *Stores) recheck(ctx context.Context, inner watch.Interface) watch.Interface {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Attributes() == nil || holder.Attributes().GetVerb() != "watch" || !holder.Get(requestctx.Request).IsAllowed() {
		return inner // the server's own
	}
	return s.follow(ctx, inner, holder)
}

// Stop implements watch.Interface.
func (w *watching) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.inner.Stop()
		w.all.mu.Lock()
		delete(w.all.open, w)
		w.all.mu.Unlock()
	})
}

// ResultChan implements watch.Interface.
func (w *watching) ResultChan() <-chan watch.Event { return w.out }

func (w *watching) run() {
	defer close(w.out)
	defer w.Stop()
	for {
		select { // first of all, whether it is over
		case <-w.expired:
			w.send(gone())
			return
		default:
		}
		select {
		case <-w.stopped:
			return
		case <-w.expired:
			w.send(gone())
			return
		case e, ok := <-w.inner.ResultChan():
			if !ok {
				return
			}
			if e.Type == watch.Error && w.narrowing != nil {
				e = unquoted(e)
			}
			select {
			case w.out <- e:
			case <-w.stopped:
				return
			case <-w.expired:
				w.send(gone())
				return
			}
		}
	}
}

func (w *watching) send(e watch.Event) {
	select {
	case w.out <- e:
	case <-w.stopped:
	}
}

// unquoted keeps an error back that may quote objects.
func unquoted(e watch.Event) watch.Event {
	if status, ok := e.Object.(*metav1.Status); ok && status.Code == http.StatusInternalServerError {
		e.Object = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "what is stored cannot be watched; why is not shown, because it could tell of objects that may not be seen"}
	}
	return e
}

// gone tells a client to list again.
func gone() watch.Event {
	return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "what you may see has changed: list again"}}
}

// newExpired is a watch that only says so.
func newExpired() watch.Interface {
	out := make(chan watch.Event, 1)
	out <- gone()
	close(out)
	return expiredWatch(out)
}

type expiredWatch chan watch.Event

// Stop implements watch.Interface.
func (expiredWatch) Stop() {}

// ResultChan implements watch.Interface.
func (w expiredWatch) ResultChan() <-chan watch.Event { return w }

// settleTime lets a burst of changes become one.
const settleTime = 100 * time.Millisecond

// Run ends watches whose caller may see something else, as soon as there is another snapshot.
func (s *Stores) Run(ctx context.Context) {
	for {
		next := s.cfg.Store.Next()
		s.watches.check(ctx, s.cfg.Gate, s.cfg.Store.Current())
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleTime):
		}
	}
}

// check checks those that were last checked by another snapshot: the given ones, or all.
func (ws *watches) check(ctx context.Context, gate *authorize.Gate, snap *snapshot.Snapshot, some ...*watching) {
	ws.mu.Lock()
	if len(some) == 0 {
		some = slices.Collect(maps.Keys(ws.open))
	}
	var all []*watching
	for _, w := range some {
		if w.snapshot.Rules != snap.Rules || w.snapshot.Served != snap.Served {
			all = append(all, w)
		}
	}
	ws.mu.Unlock()
	for _, w := range all {
		n, err := gate.NarrowFor(ctx, snap, w.attrs)
		same := err == nil && (n == nil) == (w.narrowing == nil)
		if same && n != nil {
			same = n.Box.Equal(w.narrowing.Box)
		}
		if !same {
			w.expire.Do(func() { close(w.expired) })
			continue
		}
		ws.mu.Lock()
		w.snapshot = snap
		ws.mu.Unlock()
	}
}
