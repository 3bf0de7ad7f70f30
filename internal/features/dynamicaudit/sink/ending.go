package sink

import (
	"time"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// A sink may end (spec.notAfter). From that instant on it gets no events; earlier ones are still delivered. While the
// clock is in doubt, its events wait in the spool: no event is lost, and none is sent on the authority of a clock that
// may be wrong.

// Clock decides when sinks end.
type Clock interface {
	// Now returns the time, and whether it can be trusted.
	Now() (now time.Time, known bool)
}

type machineClock struct{}

// Now implements Clock.
func (machineClock) Now() (time.Time, bool) { return time.Now(), true }

// phase is the phase of a sink's life.
type phase uint8

const (
	running phase = iota
	ended
	doubtful // it ends, and the time is not known
)

// doubtfulText is why nothing is sent to a sink that is doubtful.
const doubtfulText = "events wait: the sink ends, and the clock of the server is in doubt"

func endOf(s *v1alpha1.AuditSink) time.Time {
	if s.Spec.NotAfter == nil {
		return time.Time{}
	}
	return s.Spec.NotAfter.Time
}

// phaseOf returns the current phase of a sink.
func (r *Router) phaseOf(s *v1alpha1.AuditSink) phase {
	if s.Spec.NotAfter == nil {
		return running
	}
	now, known := r.cfg.Clock.Now()
	switch {
	case !known:
		return doubtful
	case !now.Before(s.Spec.NotAfter.Time):
		return ended
	}
	return running
}

// hasEnded reports whether a receiver no longer gets events. It is checked for each event, so none arrives after the
// end.
func (r *Router) hasEnded(routes *routes, receiver int) bool {
	if receiver >= len(routes.ends) || routes.ends[receiver].IsZero() {
		return false
	}
	now, known := r.cfg.Clock.Now()
	return known && !now.Before(routes.ends[receiver])
}

// lookAtClock is how often the clock is checked while a sink is going to end: the clock may be set.
const lookAtClock = 500 * time.Millisecond

// awaitEnds applies the configuration again when a sink has changed its phase.
func (r *Router) awaitEnds() {
	if r.ending != nil {
		r.ending.Stop()
		r.ending = nil
	}
	wait, some := lookAtClock, false
	now, known := r.cfg.Clock.Now()
	for _, s := range r.current.sinks {
		if end := s.Spec.NotAfter; end != nil {
			some = true
			if until := end.Sub(now.Round(0)); known && until > 0 {
				wait = min(wait, until)
			}
		}
	}
	if some && !r.ended {
		r.ending = time.AfterFunc(wait, r.lookAtEnds)
	}
}

func (r *Router) lookAtEnds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	for i, s := range r.current.sinks {
		if r.phases[i] != r.phaseOf(s) {
			r.apply()
			return
		}
	}
	r.awaitEnds()
}
