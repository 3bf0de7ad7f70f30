package readfilter

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// watching is an open watch that ends when what its caller may see changes. After a policy change it holds events back
// until it was checked.
type watching struct {
	inner watch.Interface
	out   chan watch.Event
	// narrowing is what it was narrowed to; nil if nothing was.
	narrowing *requestctx.Narrowing
	// matcher has seen every object that is sent; nil if selectors express everything.
	matcher *matcher
	// sight shows the events of a request; nil if they are shown as they are.
	sight   Sight
	request context.Context
	// checked is the policy under which its caller may see what it sends.
	checked atomic.Pointer[snapshot.Snapshot]
	// again signals a change of checked to a waiting goroutine.
	again   chan struct{}
	waits   atomic.Bool
	stopped chan struct{}
	expired chan struct{}
	stop    sync.Once
	expire  sync.Once
	// current returns the current policy.
	current func() *snapshot.Snapshot
	// leave removes it from the watches that are checked.
	leave func()
	// place is its index in the watches of its question.
	place int
}

var _ watch.Interface = (*watching)(nil)

// newWatching wraps a watch, which sends nothing before it runs.
func newWatching(inner watch.Interface, holder *requestctx.State, store *snapshot.Store) *watching {
	w := &watching{inner: inner, out: make(chan watch.Event), again: make(chan struct{}, 1), stopped: make(chan struct{}), expired: make(chan struct{}), current: store.Current}
	w.checked.Store(holder.Snapshot)
	return w
}

// follow wraps a watch, which sends events as long as its caller may see them.
func (s *Stores) follow(inner watch.Interface, holder *requestctx.State, m *matcher) watch.Interface {
	w := newWatching(inner, holder, s.cfg.Store)
	w.matcher, w.narrowing = m, holder.Get(requestctx.Request).Narrowing()
	w.leave = s.rechecks.add(w, holder.Attributes())
	if m != nil && m.each.LooksAtNamespace() {
		leave, leavePlaces := w.leave, s.places.add(w, holder.Attributes().GetNamespace(), m.changes)
		w.leave = func() {
			leave()
			leavePlaces()
		}
	}
	go w.run()
	return w
}

// recheck follows a watch that was allowed without a condition by rules of the index.
func (s *Stores) recheck(ctx context.Context, inner watch.Interface) watch.Interface {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Attributes() == nil || holder.Attributes().GetVerb() != "watch" || !holder.Get(requestctx.Request).IsAllowed() {
		return inner // the server's own
	}
	return s.follow(inner, holder, nil)
}

// Stop implements watch.Interface.
func (w *watching) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.inner.Stop()
		w.leave()
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
			if e.Type != watch.Bookmark && e.Type != watch.Error && !w.matcher.vouches() {
				w.end()
				continue
			}
			shown, ok := w.shown(e)
			if !ok {
				continue // it is over
			}
			select {
			case w.out <- shown:
			case <-w.stopped:
				return
			case <-w.expired:
				w.send(gone())
				return
			}
		}
	}
}

// shown holds an event until its caller may see it, and returns what the caller sees; false if the watch ends before
// that. A policy that comes while the event is being shown counts.
func (w *watching) shown(e watch.Event) (watch.Event, bool) {
	for w.hold() {
		if w.sight == nil {
			return e, true
		}
		checked := w.checked.Load()
		if shown := w.sight.Show(e); covers(checked, w.current()) {
			return shown, true
		}
	}
	return watch.Event{}, false
}

// hold waits until the policy at the moment of the call, or a newer one, says that the caller may see what is sent. It
// returns false if the watch ends before that.
func (w *watching) hold() bool {
	policy := w.current()
	if covers(w.checked.Load(), policy) {
		return true
	}
	w.waits.Store(true)
	defer w.waits.Store(false)
	for !covers(w.checked.Load(), policy) {
		select {
		case <-w.stopped:
			return false
		case <-w.expired:
			return false
		case <-w.again:
		}
	}
	return true
}

// release records that the caller may see what is sent under a policy.
func (w *watching) release(policy *snapshot.Snapshot) {
	w.checked.Store(policy)
	if !w.waits.Load() {
		return
	}
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// end tells the client to list again.
func (w *watching) end() { w.expire.Do(func() { close(w.expired) }) }

// isDue reports whether it has to be checked against a policy.
func (w *watching) isDue(policy *snapshot.Snapshot) bool {
	select {
	case <-w.expired:
		return false
	default:
		return !covers(w.checked.Load(), policy)
	}
}

// covers reports whether a watch that was checked against one policy need not be checked against another.
func covers(checked, policy *snapshot.Snapshot) bool {
	return sameLook(checked, policy) || checked.Generation > policy.Generation
}

// sameLook reports whether all callers certainly see the same under two policies.
func sameLook(a, b *snapshot.Snapshot) bool { return a.SameRights(b) && a.Fields == b.Fields }

func (w *watching) send(e watch.Event) {
	select {
	case w.out <- e:
	case <-w.stopped:
	}
}

// unquoted replaces an error that may quote objects.
func unquoted(e watch.Event) watch.Event {
	if status, ok := e.Object.(*metav1.Status); ok && status.Code == http.StatusInternalServerError {
		e.Object = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "stored objects cannot be watched; the reason is not shown because it could reveal objects that you may not see"}
	}
	return e
}

// gone tells a client to list again.
func gone() watch.Event {
	return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "what you may see has changed: list again"}}
}

// newExpired returns a watch that only sends that event.
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
