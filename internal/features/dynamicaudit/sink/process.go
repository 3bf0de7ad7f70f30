package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/engine/auditrule"
)

var _ audit.Backend = &Router{}

// work is the memory that routing one event needs.
type work struct {
	encoders []encoder // two per view: without bodies, and with them
	id       []byte
	levels   []auditrule.Level
}

var workPool sync.Pool

// ProcessEvents implements audit.Backend. Sinks have the events in their spools when it returns, and can neither delay
// nor fail the request; the static backend can, as always.
func (r *Router) ProcessEvents(events ...*auditinternal.Event) bool {
	accepted := true
	for _, ev := range events {
		shared := r.route(ev)
		if r.cfg.Static != nil {
			accepted = r.cfg.Static.process(ev, shared) && accepted
		}
	}
	return accepted
}

// Unheard reports that no sink wants events now, so they need not be read.
func (r *Router) Unheard() bool {
	return r.cfg.Static == nil && len(r.routes.Load().receivers) == 0
}

// route gives the event to the sinks that want it; false if none does.
func (r *Router) route(ev *auditinternal.Event) bool {
	routes := r.routes.Load()
	if len(routes.receivers) == 0 || !auditrule.SinkWantsStage(ev.Stage) {
		return false
	}
	most, known := auditrule.LevelOf(ev.Level)
	if !known || most == auditrule.None || r.isOwn(ev) {
		return false
	}
	w, ok := workPool.Get().(*work)
	if !ok {
		w = &work{}
	}
	defer w.release()
	w.levels = routes.index.EventLevels(ev, w.levels)
	telling := r.told.due(ev, routes, w.levels)
	wanted := false
	var now time.Time
	for i, level := range w.levels {
		if level == auditrule.None || routes.receivers[i] == nil || r.hasEnded(routes, i) {
			continue
		}
		if !wanted {
			wanted, now = true, time.Now()
			w.id = appendIdentity(w.id[:0])
		}
		// An event has the detail with which it was created, even if a sink wants more by now.
		level, number := min(level, most), routes.viewOf[i]
		var encoded *encoded
		if scope := routes.scopes[i]; scope != nil {
			if encoded = r.cut(w, routes.views[number], scope, ev, level, r.largestFor(routes.receivers[i])); encoded == nil {
				continue
			}
		} else {
			encoded = w.encoder(r, routes.views[number], number, ev, level).at(level, r.cfg.MaxEventBytes)
		}
		if !telling.keep(routes.receivers[i], encoded, now) {
			routes.receivers[i].receive(encoded, now)
		}
	}
	telling.end()
	return wanted
}

// largestFor is the largest event that a receiver gets whole. A spool drops what is larger than one of its segments,
// and that of a sink of a namespace has smaller ones.
func (r *Router) largestFor(to receiver) int {
	if s, ok := to.(*sink); ok && s.spool != nil {
		return min(r.cfg.MaxEventBytes, s.spool.largest())
	}
	return r.cfg.MaxEventBytes
}

// isOwn reports whether an event is about a request by which the server finds out how recent its policy is: such
// requests change and show nothing, and there are some every second.
func (r *Router) isOwn(ev *auditinternal.Event) bool {
	return r.cfg.OwnAgent != "" && ev.UserAgent == r.cfg.OwnAgent && ev.User.Username == user.APIServerUser
}

func (s *sink) receive(event *encoded, now time.Time) {
	_, _ = s.keep(event, now)
}

// keep puts an event into the spool, and tells its number there.
func (s *sink) keep(event *encoded, now time.Time) (uint64, error) {
	seq, err := s.spool.append(event.text, event.sum, now)
	switch {
	case err == nil && event.truncated:
		s.spool.noteTruncated()
	case err == nil, errors.Is(err, errSpoolRemoved): // the sink is deleted
	case errors.Is(err, errSpoolClosed):
		klog.ErrorS(err, "Audit event came after shutdown and is lost", "sink", s.name)
	default:
		s.delivery.failed(plainText(err.Error()))
	}
	return seq, err
}

func (s *spool) noteTruncated() {
	s.mu.Lock()
	s.cursor.Truncated++
	s.mu.Unlock()
}

// Run implements audit.Backend: deliveries begin. They end with Shutdown, not when the channel is closed, because
// requests still end after that.
func (r *Router) Run(stop <-chan struct{}) error {
	if r.cfg.Static != nil {
		if err := r.cfg.Static.Backend.Run(stop); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	r.start()
	return nil
}

// start begins the deliveries that have not begun.
func (r *Router) start() {
	if !r.running {
		return
	}
	for _, s := range r.sinks {
		if !s.started {
			ctx, cancel := context.WithCancel(context.Background())
			s.started, s.stop = true, cancel
			go s.delivery.run(ctx)
		}
	}
}

// Shutdown implements audit.Backend: it delivers what it can within FlushTimeout and leaves the rest in the spools for
// the next start.
func (r *Router) Shutdown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		r.running = false
		r.retryIf(false)
		if r.ending != nil {
			r.ending.Stop()
		}
		r.flush()
	}
	for _, t := range r.tails {
		t.end()
	}
	for _, s := range r.sinks {
		s.end()
		if err := s.spool.close(); err != nil {
			klog.ErrorS(err, "Audit spool cannot be closed properly; some events may be sent twice after the next start", "sink", s.name)
		}
	}
	r.ended = true
	r.unlock()
	if r.cfg.Static != nil {
		r.cfg.Static.Backend.Shutdown()
	}
}

func (r *Router) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.FlushTimeout)
	defer cancel()
	for _, s := range r.sinks {
		s.delivery.drain()
	}
	for _, s := range r.sinks {
		select {
		case <-s.delivery.done:
		case <-ctx.Done():
		}
	}
}

// String implements audit.Backend.
func (r *Router) String() string {
	if r.cfg.Static != nil {
		return "dynamic[" + r.cfg.Static.Backend.String() + "]"
	}
	return "dynamic"
}
