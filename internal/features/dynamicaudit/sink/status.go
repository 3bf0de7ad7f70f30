package sink

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SinkStatus is how one sink is doing on this server.
type SinkStatus struct {
	Name       string
	UID        types.UID
	Generation int64

	// Active, Reason, Message, Missing and Rules are as in auditrule.Sink.
	Active  bool
	Reason  string
	Message string
	Missing []string
	Rules   int

	// Delivered is what the sink has acknowledged since it exists, Spooled what waits for it in SpoolBytes, and Dropped
	// what it will not get.
	Delivered, Spooled, Dropped uint64
	SpoolBytes                  int64
	// Drops says why.
	Drops Drops
	// Truncated is how many events have lost their bodies because they were too large, or refused with them. Torn is
	// how many were cut off by the death of a server, before their requests had been answered; they count as neither
	// delivered nor dropped.
	Truncated, Torn uint64

	// Lag is for how long the oldest event that waits has waited.
	Lag time.Duration
	// LastError is why the last attempt failed, or why an event could not be kept; empty when events are delivered.
	LastError     string
	LastErrorTime time.Time

	attempts attemptCounts
}

// Drops counts the events that a sink will not get, by reason.
type Drops struct {
	// Full: the spool was full, and its oldest events made room.
	Full uint64
	// Share: the spool was more than half full, and the user of the event held their share of it.
	Share uint64
	// Disk: the event could not be written.
	Disk uint64
	// Oversize: the event was too large even without its bodies.
	Oversize uint64
	// Corrupt: the event was damaged on disk.
	Corrupt uint64
	// SetAside: the sink refused the event, even alone and without its bodies. It is kept beside the spool.
	SetAside uint64
}

// Status returns how each sink is doing, in the order of the last Update. It can be called at any time.
func (r *Router) Status() []SinkStatus {
	routes := r.routes.Load()
	now := time.Now()
	out := make([]SinkStatus, 0, len(routes.statuses))
	for i, s := range routes.statuses {
		c := routes.index.Sinks()[i]
		st := SinkStatus{Name: c.Name, UID: c.UID, Generation: routes.generations[i],
			Active: c.Active, Reason: c.Reason, Message: c.Message, Missing: c.Missing, Rules: c.Rules}
		if s.spool != nil {
			s.fill(&st, now)
		}
		out = append(out, st)
	}
	return out
}

func (s *sink) fill(st *SinkStatus, now time.Time) {
	sp := s.spool
	sp.mu.Lock()
	c := sp.cursor.counts
	st.Spooled, st.SpoolBytes = sp.next-sp.cursor.Seq+sp.limbo(), sp.bytes
	trouble := sp.trouble
	sp.mu.Unlock()
	st.Delivered, st.Dropped, st.Truncated, st.Torn = c.Delivered, c.dropped(), c.Truncated, c.Torn
	st.Drops = Drops{Full: c.Full, Share: c.Share, Disk: c.Disk, Oversize: c.Oversize, Corrupt: c.Corrupt, SetAside: c.SetAside}
	st.Lag = sp.lag(now)
	st.attempts = s.delivery.attempts.counts()
	s.delivery.mu.Lock()
	defer s.delivery.mu.Unlock()
	st.LastError, st.LastErrorTime = s.delivery.failure.text, s.delivery.failure.at
	if st.LastError == "" && trouble != nil {
		st.LastError, st.LastErrorTime = plainText(trouble.Error()), now
	}
}

// attempts counts the requests to a sink.
type attempts struct {
	mu sync.Mutex
	attemptCounts
}

type attemptCounts struct {
	succeeded, failed uint64
	time              time.Duration
}

func (a *attempts) observe(took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.time += took
	if err != nil {
		a.failed++
	} else {
		a.succeeded++
	}
}

func (a *attempts) counts() attemptCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attemptCounts
}
