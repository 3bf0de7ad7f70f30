package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// TailOptions say what a subscription wants to see.
type TailOptions struct {
	// Policy is as that of a sink. It can refer to the audit classes of the cluster and to Classes.
	Policy v1alpha1.Policy
	// Classes are the subscription's own; nobody else sees them.
	Classes []*v1alpha1.AuditClass
	// Buffer is how many events wait for Next at most, 1000 by default; the oldest make room for new ones.
	Buffer int
}

// bufferBytes bounds what the events of one subscription take in memory.
const bufferBytes = 16 << 20

// Tail is a subscription: a sink that lives in memory and leaves nothing behind.
type Tail struct {
	router *Router
	source auditrule.Source

	mu      sync.Mutex
	events  [][]byte // oldest first
	bytes   int
	limit   int
	dropped uint64
	closed  bool
	wake    chan struct{}
}

// ErrTailClosed is what Next returns when the subscription or the server has ended.
var ErrTailClosed = errors.New("subscription to audit events is closed")

// Tail begins a subscription. It fails if the policy cannot be used as it stands, or if there are too many
// subscriptions.
func (r *Router) Tail(opts TailOptions) (*Tail, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, ErrTailClosed
	}
	if len(r.tails) >= r.cfg.MaxTails {
		return nil, fmt.Errorf("there are %d subscriptions to audit events already, the most that are allowed; end one", len(r.tails))
	}
	if opts.Buffer <= 0 {
		opts.Buffer = 1000
	}
	r.tailSeq++
	name := fmt.Sprintf("tail-%d", r.tailSeq)
	t := &Tail{router: r, limit: opts.Buffer, wake: make(chan struct{}, 1), source: auditrule.Source{
		Name: name, UID: types.UID(name), Policy: opts.Policy, Own: opts.Classes, Receives: true,
	}}
	probe := auditrule.Compile([]auditrule.Source{t.source}, r.current.classes).Sinks()[0]
	if !probe.Active {
		return nil, errors.New(strings.TrimSuffix(probe.Message, "; the sink becomes active when they do"))
	}
	r.tails = append(r.tails, t)
	r.apply()
	return t, nil
}

func (t *Tail) receive(event *encoded, _ time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.events = append(t.events, slices.Clone(event.text))
	t.bytes += len(event.text)
	for len(t.events) > t.limit || t.bytes > bufferBytes && len(t.events) > 1 {
		t.bytes -= len(t.events[0])
		t.events[0] = nil
		t.events = t.events[1:]
		t.dropped++
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Next returns the events since the last call, as audit.k8s.io/v1 JSON, and how many were dropped because Next was not
// called soon enough. It waits until there is one.
func (t *Tail) Next(ctx context.Context) (events [][]byte, dropped uint64, err error) {
	for {
		t.mu.Lock()
		events, dropped = t.events, t.dropped
		closed := t.closed
		t.events, t.bytes, t.dropped = nil, 0, 0
		t.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, dropped, nil
		case closed:
			return nil, dropped, ErrTailClosed
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Close ends the subscription. Events that wait can still be read.
func (t *Tail) Close() {
	t.end()
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	before := len(t.router.tails)
	t.router.tails = slices.DeleteFunc(t.router.tails, func(other *Tail) bool { return other == t })
	if len(t.router.tails) < before && !t.router.ended {
		t.router.apply()
	}
}

func (t *Tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
