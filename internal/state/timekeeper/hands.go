package timekeeper

import "time"

// Hands is what a clock shows.
type Hands interface {
	// Now returns the time of day, which may be set.
	Now() time.Time
	// Elapsed returns how long the clock has run. It cannot be set.
	Elapsed() time.Duration
}

// Machine returns the clock of the machine.
func Machine() Hands { return machine{time.Now()} }

type machine struct{ began time.Time }

// Now implements Hands.
func (machine) Now() time.Time { return time.Now() }

// Elapsed implements Hands.
func (m machine) Elapsed() time.Duration { return time.Since(m.began) }
