package sink

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/request/authorize"
)

// told knows the events for whose delivery a request waits (TM-13).
type told struct {
	// some is how many there are, so that other events cost nothing.
	some    atomic.Int32
	mu      sync.Mutex
	waiting map[string]*telling
}

// telling is an event that sinks get, whatever their policies say.
type telling struct {
	sinks []string
	// kept is what became of it, by sink, once routed is closed.
	kept   map[string]kept
	routed chan struct{}
}

// kept is an event in a spool.
type kept struct {
	spool *spool
	seq   uint64
	lost  uint64 // by the spool, before
	err   error
}

// Check returns why a sink does not get events from now until an instant; nil if it does.
func (r *Router) Check(name string, until time.Time) error {
	routes := r.routes.Load()
	for i, s := range routes.statuses {
		if s == nil || s.name != name || routes.receivers[i] == nil {
			continue
		}
		if end := routes.ends[i]; !end.IsZero() && end.Before(until) {
			return fmt.Errorf("AuditSink %q ends at %s, which is before %s", name, end.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
		}
		return nil
	}
	return fmt.Errorf("there is no AuditSink %q that is active", name)
}

// Tell has the event that ends a request, which has the annotation authorize.AnnotationAsked, given to sinks whatever
// they want. What it returns waits until each of them has acknowledged it, or has it in its spool.
func (r *Router) Tell(asked string, sinks []string, spooled bool) func(context.Context) error {
	t := &telling{sinks: sinks, kept: map[string]kept{}, routed: make(chan struct{})}
	r.told.mu.Lock()
	if r.told.waiting == nil {
		r.told.waiting = map[string]*telling{}
	}
	r.told.waiting[asked] = t
	r.told.mu.Unlock()
	r.told.some.Add(1)
	return func(ctx context.Context) error {
		defer r.told.forget(asked)
		return t.wait(ctx, spooled)
	}
}

func (t *told) forget(asked string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, asked)
	t.some.Add(-1)
}

// due raises the levels of sinks that get an event whatever they want, and returns who waits for it; nil if nobody
// does.
func (t *told) due(ev *auditinternal.Event, routes *routes, levels []auditrule.Level) *telling {
	var one *telling
	if t.some.Load() > 0 && ev.Stage == auditinternal.StageResponseComplete {
		t.mu.Lock()
		one = t.waiting[ev.Annotations[authorize.AnnotationAsked]]
		t.mu.Unlock()
	}
	named := authorize.Numbered(ev.Annotations, authorize.AnnotationSinks)
	if one == nil && named == nil {
		return nil
	}
	for i, s := range routes.statuses {
		if s != nil && i < len(levels) && (one.names(s.name) || slices.Contains(named, s.name)) {
			levels[i] = max(levels[i], auditrule.Metadata)
		}
	}
	return one
}

func (t *telling) names(sink string) bool { return t != nil && slices.Contains(t.sinks, sink) }

// keep gives the event to a sink that is waited for; false for others.
func (t *telling) keep(r receiver, event *encoded, now time.Time) bool {
	s, ok := r.(*sink)
	if !ok || !t.names(s.name) {
		return false
	}
	k := kept{spool: s.spool, lost: s.spool.lost()}
	k.seq, k.err = s.keep(event, now)
	t.kept[s.name] = k
	return true
}

// end lets those who wait look.
func (t *telling) end() {
	if t != nil {
		close(t.routed)
	}
}

// lookAgain is how often the spools are looked at.
const lookAgain = 10 * time.Millisecond

func (t *telling) wait(ctx context.Context, spooled bool) error {
	select {
	case <-t.routed:
	case <-ctx.Done():
		return fmt.Errorf("the event of the request has not come: %w", ctx.Err())
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for _, name := range t.sinks {
		k, ok := t.kept[name]
		if !ok {
			return fmt.Errorf("AuditSink %q does not get events", name)
		}
		if k.err != nil {
			return fmt.Errorf("AuditSink %q has lost the event: %w", name, k.err)
		}
		for !spooled {
			done, err := k.spool.has(k)
			if done || err != nil {
				if err != nil {
					return fmt.Errorf("AuditSink %q: %w", name, err)
				}
				break
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return fmt.Errorf("AuditSink %q has not acknowledged the event: %w", name, ctx.Err())
			}
		}
	}
	return nil
}

// lost is how many events a sink will not get.
func (s *spool) lost() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor.dropped()
}

// has reports whether the sink has acknowledged an event. It is an error if it may be one of those that were lost.
func (s *spool) has(k kept) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.removed || s.cursor.dropped() != k.lost:
		return false, fmt.Errorf("events were lost meanwhile")
	case s.cursor.Seq > k.seq:
		return true, nil
	}
	return false, nil
}
