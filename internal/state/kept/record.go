package kept

import (
	"slices"
	"time"
)

// Record is what is recorded about one definition.
type Record struct {
	// Name is the name of the definition.
	Name string `json:"name"`
	// Last is the last stored state, found by a server that saw every write.
	Last Declared `json:"last"`
	// Next are the states that writes in progress would store.
	Next []Next `json:"next,omitempty"`
	// By is a hash of the creator of the definition, until the definition is found.
	By string `json:"by,omitempty"`
}

// Declared is what a definition declares.
type Declared struct {
	// Text is its annotation. The texts of two states are never the same.
	Text string `json:"text"`
	// Missing are declarations that were lost while the gate was off, and that still guard.
	Missing []string `json:"missing,omitempty"`
}

// Next is a write in progress.
type Next struct {
	Declared
	// Base is the resource version that it replaces; empty if it creates the definition.
	Base string `json:"base,omitempty"`
	// At is when it was recorded, in seconds.
	At int64 `json:"at"`
}

// patience is how long a write may be in progress: requests end sooner.
const patience = 2 * time.Minute

// IsEmpty reports whether there is nothing to keep.
func (r *Record) IsEmpty() bool {
	return r.Last.Text == "" && len(r.Last.Missing) == 0 && len(r.Next) == 0
}

// isCreation reports whether the definition was not found yet but may still be created.
func (r *Record) isCreation() bool {
	return r.Last.Text == "" && slices.ContainsFunc(r.Next, func(n Next) bool { return n.Base == "" })
}

// Enter adds a write. Writes that can no longer be stored are dropped.
func (r *Record) Enter(n Next, now time.Time) {
	n.At = now.Unix()
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(have Next) bool {
		return have.isOver(now) || have.Base == n.Base && have.Text == n.Text && slices.Equal(have.Missing, n.Missing)
	})
	r.Next = append(r.Next, n)
}

func (n *Next) isOver(now time.Time) bool { return now.Unix()-n.At > int64(patience/time.Second) }

// Of returns the states that a definition with this text may be in. None means that it was written while the gate was
// off.
func (r *Record) Of(text string) (all []Declared) {
	if r.Last.Text == text {
		all = append(all, r.Last)
	}
	for _, n := range r.Next {
		if n.Text == text {
			all = append(all, n.Declared)
		}
	}
	return all
}

// All returns all states.
func (r *Record) All() []Declared {
	all := []Declared{r.Last}
	for _, n := range r.Next {
		all = append(all, n.Declared)
	}
	return all
}

// Settle makes the stored state the last one. Writes that replace it may still arrive.
func (r *Record) Settle(stored Declared, version string, now time.Time) {
	r.Last, r.By = stored, ""
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(n Next) bool { return n.Base != version || n.isOver(now) })
}

// Expire drops writes that can no longer be stored, for a definition that does not exist.
func (r *Record) Expire(now time.Time) {
	r.Last = Declared{}
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(n Next) bool { return n.Base != "" || n.isOver(now) })
}
