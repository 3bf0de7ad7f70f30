package timekeeper

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// Behind is how far a clock may be behind the largest instant seen.
	Behind = 30 * time.Second
	// DefaultSkew is how far the clocks of two replicas may be apart, beyond the uncertainty of the measurement.
	DefaultSkew = 2 * time.Second
	// MinSkew is the smallest permitted setting.
	MinSkew = 100 * time.Millisecond
)

// Keeper is a clock that knows whether it can be trusted.
type Keeper struct {
	hands Hands
	skew  time.Duration
	known atomic.Pointer[evidence]
}

// New returns a clock that is in doubt until it has been compared.
func New(hands Hands, skew time.Duration) *Keeper {
	k := &Keeper{hands: hands, skew: skew}
	k.known.Store(&evidence{})
	return k
}

// evidence is what a clock is judged by. It is immutable.
type evidence struct {
	// compared is false until the kept instant was read and the replicas were asked.
	compared bool
	// largest is the largest instant that any replica has seen.
	largest time.Time
	// others are the clocks of the other replicas.
	others []other
}

// other is the clock of another replica, expressed as the time of day at which this process began: it was between from
// and until. Expressed like this, it stays valid while both clocks run.
type other struct {
	host        string
	from, until time.Time
}

// measured returns the clock of a replica that showed an instant at some moment between asked and answered.
func measured(host string, at time.Time, asked, answered time.Duration) other {
	return other{host, at.Add(-answered), at.Add(-asked)}
}

// off returns how far a beginning is outside what the other clock permits.
func (o *other) off(began time.Time) time.Duration {
	return max(o.from.Sub(began), began.Sub(o.until), 0)
}

// doubt is the evidence against a clock.
type doubt struct {
	uncompared bool
	// behind is how far it is behind the largest instant, and off how far it is off the clock of a replica.
	behind, off time.Duration
	from        *other
}

// Now implements snapshot.Clock.
func (k *Keeper) Now() (time.Time, bool) {
	now := k.hands.Now()
	_, doubted := k.judge(now)
	return now, !doubted
}

// judge looks for evidence against the time shown. It does not allocate: every request calls it.
func (k *Keeper) judge(now time.Time) (d doubt, doubted bool) {
	e, wall := k.known.Load(), now.Round(0)
	if !e.compared {
		return doubt{uncompared: true}, true
	}
	if behind := e.largest.Sub(wall); behind > Behind {
		return doubt{behind: behind}, true
	}
	if len(e.others) == 0 {
		return d, false
	}
	began := wall.Add(-k.hands.Elapsed())
	for i := range e.others {
		if off := e.others[i].off(began); off > k.skew {
			return doubt{off: off, from: &e.others[i]}, true
		}
	}
	return d, false
}

// Doubt returns why the clock is in doubt; empty if it is not.
func (k *Keeper) Doubt() string {
	now := k.hands.Now()
	d, doubted := k.judge(now)
	const meanwhile = "role bindings and grants that begin or end allow nothing, and deny"
	switch shown := now.UTC().Format(time.RFC3339); {
	case !doubted:
		return ""
	case d.uncompared:
		return "the clock of this server has not been compared with the past and with those of the replicas yet: " + meanwhile
	case d.behind > 0:
		return fmt.Sprintf("the clock of this server shows %s and is %s behind an instant that was seen before: %s until it has caught up; set the clock, or, if it is right, start one server with --agree",
			shown, d.behind.Round(time.Second), meanwhile)
	default:
		return fmt.Sprintf("the clock of this server shows %s and is at least %s off that of the replica on %s, with --max-clock-skew=%s: %s until they are in step; set the clocks",
			shown, d.off.Round(time.Millisecond), d.from.host, k.skew, meanwhile)
	}
}

// isBehind reports whether the clock is known to be wrong, so others must not compare with it.
func (k *Keeper) isBehind() bool {
	d, _ := k.judge(k.hands.Now())
	return d.behind > 0
}
