package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// clock is a time that only the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// etcd stands for what a source is asked about, and for how far its mirror has come.
type etcd struct {
	newest, mirrored uint64
	down             bool
}

func (e *etcd) ask(context.Context) (uint64, error) {
	if e.down {
		return 0, errors.New("etcd is away")
	}
	return e.newest, nil
}

func aging(limit time.Duration, sources ...*etcd) (*Age, *clock, func(time.Duration)) {
	c := &clock{time.Unix(1000, 0)}
	a := NewAge(limit)
	a.now, a.begun = c.now, c.at
	for _, e := range sources {
		a.sources = append(a.sources, &aged{newest: e.ask, reached: func() uint64 { return e.mirrored }})
	}
	// pass lets time go by, with a question and a look every few seconds.
	pass := func(d time.Duration) {
		for end := c.at.Add(d); c.at.Before(end); c.at = c.at.Add(5 * time.Second) {
			for _, src := range a.sources {
				a.ask(context.Background(), src)
			}
			a.look()
		}
	}
	return a, c, pass
}

// OP-6: the age is the time since a question whose answer every source has reached. Idle is not stale. An etcd that
// does not answer is, and so is a watch that stands still while etcd goes on.
func TestAgeOfThePolicy(t *testing.T) {
	idle, busy := &etcd{newest: 7, mirrored: 7}, &etcd{newest: 7, mirrored: 7}
	a, _, pass := aging(time.Minute, idle, busy)
	if a.Of() != 0 || a.Stale() != "" {
		t.Errorf("at the beginning: %s, %q", a.Of(), a.Stale())
	}
	pass(10 * time.Minute) // nothing is written at all
	if a.Of() > 10*time.Second || a.Stale() != "" || a.notice() != "" {
		t.Errorf("idle: %s, %q, %q", a.Of(), a.Stale(), a.notice())
	}

	idle.newest, busy.newest, busy.mirrored = 8, 8, 8 // something was written elsewhere, and the idle one does not hear of it yet
	pass(40 * time.Second)
	if a.Of() < 35*time.Second || a.Stale() != "" {
		t.Errorf("without a bookmark: %s, %q", a.Of(), a.Stale())
	}
	idle.mirrored = 8
	pass(5 * time.Second)
	if a.Of() > 10*time.Second {
		t.Errorf("after the bookmark: %s", a.Of())
	}

	busy.newest = 9 // its watch stands still
	pass(50 * time.Second)
	if a.Stale() != "" || !strings.Contains(a.notice(), "has not heard from etcd for") {
		t.Errorf("before the limit: %q, %q", a.Stale(), a.notice())
	}
	pass(20 * time.Second)
	if why := a.Stale(); !strings.Contains(why, "--policy-max-staleness=1m0s") {
		t.Errorf("a watch that stands still: %s, %q", a.Of(), why)
	}
	busy.mirrored = 9
	pass(5 * time.Second)
	if a.Stale() != "" || a.notice() != "" {
		t.Errorf("it goes on: %s, %q", a.Of(), a.Stale())
	}

	idle.down, busy.down = true, true
	pass(70 * time.Second)
	if a.Stale() == "" {
		t.Errorf("etcd is away: %s", a.Of())
	}
	idle.down, busy.down = false, false
	pass(5 * time.Second)
	if a.Stale() != "" {
		t.Errorf("etcd is back: %s, %q", a.Of(), a.Stale())
	}
}

// OP-6: without a limit nobody is refused, and readiness warns all the same; with one, what never answered is old.
func TestAgeWithoutLimit(t *testing.T) {
	silent := &etcd{down: true}
	a, _, pass := aging(0, silent)
	pass(time.Hour)
	if a.Stale() != "" || !strings.Contains(a.notice(), "1h0m0s") {
		t.Errorf("no limit: %q, %q", a.Stale(), a.notice())
	}
	limited, _, later := aging(MinStaleness, silent)
	later(time.Minute)
	if limited.Stale() == "" {
		t.Error("a source that never answered is not stale")
	}
	// The questions that wait are bounded, and the newest is among them.
	src := limited.sources[0]
	silent.down, silent.newest = false, 5
	later(time.Hour)
	if len(src.asked) != maxAsked || limited.Stale() == "" {
		t.Errorf("%d questions wait", len(src.asked))
	}
	silent.mirrored = 5
	later(5 * time.Second)
	if len(src.asked) != 0 || limited.Stale() != "" {
		t.Errorf("%d questions wait, %q", len(src.asked), limited.Stale())
	}
	if allocs := testing.AllocsPerRun(100, func() { _ = limited.Stale() }); allocs != 0 {
		t.Errorf("asking allocates %v times", allocs)
	}
}
