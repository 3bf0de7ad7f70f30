package requestctx

import (
	"context"
	"sync"
)

// Notes are what one stage of admission finds out and a later one needs. They do not contain decisions. A request
// without notes gets the strictest answer to every question, so a host that forgets them refuses too much and never too
// little.
type Notes struct {
	mu       sync.Mutex
	granular bool
	claim    bool
	ledger   *Ledger

	keeping sync.Mutex
	kept    map[any]any
}

// WithNotes begins the notes of a request.
func WithNotes(ctx context.Context) context.Context {
	ctx, s := within(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sections.notes = &Notes{}
	return ctx
}

// NotesOf returns the notes of a request, or nil. All methods work on nil.
func NotesOf(ctx context.Context) *Notes { return From(ctx).goingOn().notes }

// Granular records that the caller, with all conditions resolved, has rights to single fields only.
func (n *Notes) Granular() { n.set(func(n *Notes) { n.granular = true }) }

// WasGranular reports whether the enforcer found rights to single fields only.
func (n *Notes) WasGranular() bool { return n.get(func(n *Notes) bool { return n.granular }, true) }

// Claim records that a Scale changes who manages the scale field.
func (n *Notes) Claim() { n.set(func(n *Notes) { n.claim = true }) }

// Claims reports whether mutating admission saw a Scale change who manages the scale field.
func (n *Notes) Claims() bool { return n.get(func(n *Notes) bool { return n.claim }, true) }

// Hold begins the ledger of a request whose response is held until it is admitted.
func (n *Notes) Hold(l *Ledger) { n.set(func(n *Notes) { n.ledger = l }) }

// Ledger is where states and admissions are recorded; nil if the response is not held.
func (n *Notes) Ledger() *Ledger {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger
}

func (n *Notes) set(write func(*Notes)) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	write(n)
}

func (n *Notes) get(read func(*Notes) bool, strictest bool) bool {
	if n == nil {
		return strictest
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return read(n)
}

// Kept reports whether a value exists for the key.
func (n *Notes) Kept(key any) bool {
	if n == nil {
		return false
	}
	n.keeping.Lock()
	defer n.keeping.Unlock()
	_, ok := n.kept[key]
	return ok
}

// Keep returns the value for the key, which is made once per request: a deletecollection is admitted object by object,
// and what holds for all objects is computed once.
func (n *Notes) Keep(key any, make func() any) any {
	if n == nil {
		return make()
	}
	n.keeping.Lock()
	defer n.keeping.Unlock()
	if made, ok := n.kept[key]; ok {
		return made
	}
	if n.kept == nil {
		n.kept = map[any]any{}
	}
	made := make()
	n.kept[key] = made
	return made
}
