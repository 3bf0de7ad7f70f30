package timekeeper

import "time"

// Hands are what a clock shows.
type Hands interface {
	// Now is the time of day, which may be set.
	Now() time.Time
	// Elapsed is how long the clock has run. It cannot be set.
	Elapsed() time.Duration
}

// Machine is the clock of the machine.
func Machine() Hands { return machine{time.Now()} }

type machine struct{ began time.Time }

// Now implements Hands.
func (machine) Now() time.Time { return time.Now() }

// Elapsed implements Hands.
func (m machine) Elapsed() time.Duration { return time.Since(m.began) }
