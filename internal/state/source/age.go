package source

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// snapshotAge is how old the policy may be (OP-6).
var (
	snapshotAge = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "policy", Name: "snapshot_age_seconds", StabilityLevel: metrics.ALPHA,
		Help: "How long the policy in force has not heard from etcd: what was written before that is in it. About a minute while nobody changes anything.",
	})

	registerAge = sync.OnceFunc(func() { legacyregistry.MustRegister(snapshotAge) })
)

const (
	// askEvery is how often each source is asked for its newest revision, if no limit needs more precision.
	askEvery = 15 * time.Second
	// oldAfter is when readiness warns. A source without changes learns its revision every minute.
	oldAfter = 3 * time.Minute
	// MinStaleness is the smallest limit: an idle watch gets the revision shortly before it times out, and this leaves
	// room for several of them.
	MinStaleness = 30 * time.Second
)

// Age tracks how old the policy in the mirrors may be. Each source is asked repeatedly for its newest revision, with a
// consistent read, for which the server makes etcd report its progress. When a mirror has reached that revision, it has
// everything that was written before the question: idle is not stale (OP-6).
type Age struct {
	limit time.Duration // 0 for none
	now   func() time.Time
	begun time.Time

	mu      sync.Mutex
	sources []*aged
	// known is the time before which everything written is known, in nanoseconds since the beginning and one more; 0
	// before it is known for every source. It is not a time of day, so setting the clock back does not make policy
	// younger.
	known atomic.Int64
}

// aged is one source.
type aged struct {
	reached func() uint64
	newest  func(context.Context) (uint64, error)

	known time.Time
	asked []question // the oldest first
}

// question is a revision that was the newest when it was asked for.
type question struct {
	at       time.Time
	revision uint64
}

// maxAsked bounds how many questions wait for one source. The oldest ones are kept, since they are answered first.
const maxAsked = 64

// NewAge returns an Age that refuses beyond a limit; 0 means unlimited.
func NewAge(limit time.Duration) *Age {
	a := &Age{limit: limit, now: time.Now}
	a.begun = a.now()
	return a
}

// Begin starts counting: before, no source could be asked.
func (a *Age) Begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = a.now()
	a.known.Store(0)
}

// every is how often sources are asked.
func (a *Age) every() time.Duration {
	if a.limit == 0 {
		return askEvery
	}
	return min(askEvery, a.limit/8)
}

// watchTimeout is the minimum duration of a watch, and half of the maximum: in its last two seconds it gets the
// revision, unless the server is too busy. Three in a row may miss that. 0 means upstream's default.
func (a *Age) watchTimeout() time.Duration { return a.limit / 8 }

// follow asks about one source until the context ends.
func (a *Age) follow(ctx context.Context, reached func() uint64, newest func(context.Context) (uint64, error)) {
	src := &aged{reached: reached, newest: newest}
	a.mu.Lock()
	a.sources = append(a.sources, src)
	a.known.Store(0)
	a.mu.Unlock()
	ticker := time.NewTicker(a.every())
	defer ticker.Stop()
	for ctx.Err() == nil {
		a.ask(ctx, src)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (a *Age) ask(ctx context.Context, src *aged) {
	at := a.now()
	ctx, cancel := context.WithTimeout(ctx, max(a.every(), 5*time.Second))
	defer cancel()
	revision, err := src.newest(ctx)
	if err != nil {
		return // it gets older
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(src.asked) < maxAsked {
		src.asked = append(src.asked, question{at, revision})
	} else {
		src.asked[maxAsked-1] = question{at, revision}
	}
}

// run checks, until the context ends, which questions have been answered.
func (a *Age) run(ctx context.Context) {
	registerAge()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		a.look()
		snapshotAge.Set(math.Round(a.Of().Seconds()*1000) / 1000)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (a *Age) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var known time.Time
	for i, src := range a.sources {
		reached := src.reached()
		for len(src.asked) > 0 && src.asked[0].revision <= reached {
			src.known, src.asked = src.asked[0].at, src.asked[1:]
		}
		if i == 0 || src.known.Before(known) {
			known = src.known
		}
	}
	if known.IsZero() {
		a.known.Store(0)
	} else {
		a.known.Store(int64(known.Sub(a.begun)) + 1)
	}
}

// Of returns how old the policy may be; before anything is known, how long that has been the case.
func (a *Age) Of() time.Duration {
	running := a.now().Sub(a.begun)
	if known := a.known.Load(); known != 0 {
		return running - time.Duration(known-1)
	}
	return running
}

// Stale returns why the policy is too old to decide by; empty if it is not. Then it does not allocate.
func (a *Age) Stale() string {
	if a.limit == 0 {
		return ""
	}
	age := a.Of()
	if age <= a.limit {
		return ""
	}
	return fmt.Sprintf("this server has not heard from etcd for %s, and its policy may be out of date (--policy-max-staleness=%s): try again, or ask another server", age.Round(time.Second), a.limit)
}

// notice returns an early warning; empty if there is no reason.
func (a *Age) notice() string {
	after := oldAfter
	if a.limit > 0 {
		after = a.limit * 3 / 4
	}
	if age := a.Of(); age > after {
		return fmt.Sprintf("the policy in force has not heard from etcd for %s", age.Round(time.Second))
	}
	return ""
}
