package kept

import (
	"slices"
	"time"
)

// Record is what is kept of one definition.
type Record struct {
	// Name is that of the definition.
	Name string `json:"name"`
	// Last is what was found stored last, by a server that saw every write.
	Last Declared `json:"last"`
	// Next is what writes on their way would make of it.
	Next []Next `json:"next,omitempty"`
	// By is a hash of who makes the definition, as long as it was not found.
	By string `json:"by,omitempty"`
}

// Declared is what a definition declares.
type Declared struct {
	// Text is its annotation. The texts of two states are never the same.
	Text string `json:"text"`
	// Missing are declarations that were lost while nobody looked, and still guard.
	Missing []string `json:"missing,omitempty"`
}

// Next is a write on its way.
type Next struct {
	Declared
	// Base is the resource version that it replaces; empty if it makes the definition.
	Base string `json:"base,omitempty"`
	// At is when it was entered, in seconds.
	At int64 `json:"at"`
}

// patience is how long a write may be on its way: requests end sooner.
const patience = 2 * time.Minute

// IsEmpty reports whether there is nothing to keep.
func (r *Record) IsEmpty() bool {
	return r.Last.Text == "" && len(r.Last.Missing) == 0 && len(r.Next) == 0
}

// isCreation reports whether the definition was not found yet and may still come.
func (r *Record) isCreation() bool {
	return r.Last.Text == "" && slices.ContainsFunc(r.Next, func(n Next) bool { return n.Base == "" })
}

// Enter adds a write. Writes that cannot be stored any more make room.
func (r *Record) Enter(n Next, now time.Time) {
	n.At = now.Unix()
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(have Next) bool {
		return have.isOver(now) || have.Base == n.Base && have.Text == n.Text && slices.Equal(have.Missing, n.Missing)
	})
	r.Next = append(r.Next, n)
}

func (n *Next) isOver(now time.Time) bool { return now.Unix()-n.At > int64(patience/time.Second) }

// Of are the states that a definition with this text may be in. None means that it was written unseen.
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

// All are all states.
func (r *Record) All() []Declared {
	all := []Declared{r.Last}
	for _, n := range r.Next {
		all = append(all, n.Declared)
	}
	return all
}

// Settle makes what is stored the last state. Writes that replace what is stored may still come.
func (r *Record) Settle(stored Declared, version string, now time.Time) {
	r.Last, r.By = stored, ""
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(n Next) bool { return n.Base != version || n.isOver(now) })
}

// Expire drops what can no longer be stored, of a definition that is not there.
func (r *Record) Expire(now time.Time) {
	r.Last = Declared{}
	r.Next = slices.DeleteFunc(slices.Clone(r.Next), func(n Next) bool { return n.Base != "" || n.isOver(now) })
}
