package requestctx

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Slot tells to which of a request's checks a pass belongs.
type Slot int

const (
	// Request is the check of the request's own verb, made by the authorization filter.
	Request Slot = iota
	// Create is the second check that the handlers make when an update or an apply turns into a create.
	Create
	// Connect is the check for create of a connect request, made in admission.
	Connect

	slots
)

// Pending is what of a verdict waits for the object: the rest of the authorizer chain, bound to the snapshot it began
// with.
type Pending interface {
	// Resolve gives the outcome. It is called once per object (deletecollection has many) and must be a pure
	// function of the request and the data.
	Resolve(ctx context.Context, data authorizer.ConditionsData) Outcome
}

// Outcome is the final decision on one object, with what decided. What a caller may see (Reason) and what only logs and
// audit may hold (Detail) are separate values. The zero Outcome denies.
type Outcome struct {
	Decision authorizer.Decision
	Reason   string
	Detail   error
	// Authorizer and Conditions name what decided, for audit annotations and metrics.
	Authorizer string
	Conditions []string
	// Types are the types of the conditions, sorted and joined by commas.
	Types string
}

// Pass is what authorization hands over to admission. The zero value denies.
type Pass struct {
	allowed  bool
	pending  Pending
	granular bool
	fields   Pending
	narrowed *Narrowing
}

// Allowed is an unconditional allowance.
func Allowed() Pass { return Pass{allowed: true} }

// Conditional is an allowance that depends on the object.
func Conditional(p Pending) Pass { return Pass{pending: p} }

// Narrowing is what is added to the selectors of a list or watch, so that it reads what its caller may see and nothing
// else (RD-1).
type Narrowing struct {
	Box selectors.Box
	// Each decides about every object what the box cannot say; nil if the box says all of it (RD-10).
	Each Each
	// Union is set if it is put together of what may be seen in single namespaces, or by name (RD-11).
	Union *Union
	// Rules are the IDs of the conditions that it comes from.
	Rules []string
	// Basis is what it was computed from, for those who ask again later; nil if that is not known.
	Basis Basis
}

// Union is of what a list or watch is put together that is not allowed as a whole.
type Union struct {
	// Namespaces are those in which something may be seen, in the order in which objects are stored.
	Namespaces []string
	// Elsewhere tells that objects outside of them may be seen, too: by a condition, or by name.
	Elsewhere bool
	// Themselves tells that the namespaces are the objects.
	Themselves bool
}

// IsEverything reports whether nothing is added: the caller's own selectors say all of the condition.
func (n *Narrowing) IsEverything() bool { return n.Each == nil && n.Box.IsEverything() }

// View tells narrowings apart: those with the same view show the same of every object. It is a hash, so that nothing
// that a caller chose is kept (NI-6).
func (n *Narrowing) View() View {
	var each View
	if n.Each != nil {
		each = n.Each.View()
	}
	h := sha256.New()
	_, _ = h.Write(each[:])
	_, _ = io.WriteString(h, n.Box.String())
	return View(h.Sum(nil))
}

// View is a hash of what decides what is seen.
type View [sha256.Size]byte

// Each decides about the objects of a list or watch, one at a time. It is a pure function of the object and, if it
// looks at that, of its namespace.
type Each interface {
	// Shows reports whether an object may be seen. An object of which that is not known may not be; the error says why.
	Shows(ctx context.Context, data authorizer.ConditionsData) (bool, error)
	// View is a hash of everything it looks at beside the object and its namespace.
	View() View
	// At reports whether an object may be seen if its place and its name tell; otherwise it is not known.
	At(namespace, name string) (shown, known bool)
	// LooksAtNamespace reports whether the namespace of an object counts.
	LooksAtNamespace() bool
}

// Basis is all that the selectors of one list or watch are computed from. Computing them takes milliseconds, comparing
// what they are computed from takes none.
type Basis interface {
	// Equal reports whether the same request gets the same selectors from both.
	Equal(Basis) bool
}

// Narrowed is an allowance of a list or watch that returns only what is in the box.
func Narrowed(n *Narrowing) Pass { return Pass{narrowed: n} }

// Narrowing is what has to be added to the selectors; nil unless the pass is that.
func (p Pass) Narrowing() *Narrowing { return p.narrowed }

// Granular is the pass of a caller who does not have the verb of the request, and may have the right to some fields:
// every field that changes has to be covered. What denies the verb under a condition still has to be resolved; it may
// be nil.
func Granular(denies Pending) Pass { return Pass{pending: denies, granular: true} }

// Answered adds what authorization has found out already: whether the caller may write single fields at all.
func (p Pass) Answered(fields Pending) Pass {
	p.fields = fields
	return p
}

// IsGranular reports whether the request was let through for the sake of single fields only.
func (p Pass) IsGranular() bool { return p.granular }

// Fields resolves whether the caller may write single fields; nil if that was not asked.
func (p Pass) Fields() Pending { return p.fields }

// IsAllowed reports whether the pass needs no object.
func (p Pass) IsAllowed() bool { return p.allowed }

// Pending returns what is left to decide, or nil.
func (p Pass) Pending() Pending { return p.pending }

// State is everything that travels with one request of ours, under one key of its context. Each part has one writer.
type State struct {
	// Snapshot is the policy of this request, from its authorization to its admission, at the instant of the request.
	Snapshot *snapshot.Snapshot
	// Instant is when the request arrived; zero if the time is not known.
	Instant time.Time

	mu       sync.Mutex
	passes   [slots]Pass
	by       [slots]string
	used     map[types.UID]bool
	attrs    authorizer.Attributes
	supposed [slots][]Supposition
	atLeast  string
	refused  error
	written  revision.Vector
	sections sections
}

// Supposition is a rule that is not enforced and whose answer waits for the object.
type Supposition interface {
	// Settle takes down what the rule would have made of it; allowed is what became of it. It is called once per
	// object.
	Settle(ctx context.Context, data authorizer.ConditionsData, allowed bool)
}

// Suppose adds a supposition to a slot.
func (h *State) Suppose(slot Slot, s Supposition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.supposed[slot] = append(h.supposed[slot], s)
}

// Supposed are the suppositions of a slot.
func (h *State) Supposed(slot Slot) []Supposition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.supposed[slot]
}

type key struct{}

// With returns a context that carries a state without passes, pinned to the given snapshot. The sections of the state
// that was there go on.
func With(ctx context.Context, s *snapshot.Snapshot) context.Context {
	before := From(ctx)
	return context.WithValue(ctx, key{}, &State{Snapshot: s, Instant: before.instant(), sections: before.goingOn()})
}

// At is With at an instant, which is zero if the time is not known.
func At(ctx context.Context, s *snapshot.Snapshot, instant time.Time) context.Context {
	if instant.IsZero() {
		s = s.Unknown()
	} else {
		s = s.At(instant)
	}
	return context.WithValue(ctx, key{}, &State{Snapshot: s, Instant: instant, sections: From(ctx).goingOn()})
}

// InstantOf is the instant of the request; zero if it is not known.
func InstantOf(ctx context.Context) time.Time { return From(ctx).instant() }

func (h *State) instant() (at time.Time) {
	if h == nil {
		return at
	}
	return h.Instant
}

// From returns the state of a request, or nil.
func From(ctx context.Context) *State {
	h, _ := ctx.Value(key{}).(*State)
	return h
}

// WithAtLeast returns a context whose state is pinned to the given snapshot until it is known who asks, and then to
// one that is at least as new as the token says.
func WithAtLeast(ctx context.Context, s *snapshot.Snapshot, instant time.Time, token string) (context.Context, *State) {
	h := &State{Snapshot: s, Instant: instant, atLeast: token, sections: From(ctx).goingOn()}
	return context.WithValue(ctx, key{}, h), h
}

// Waits reports whether the caller asks for newer policy than is pinned.
func (h *State) Waits() bool { return h.atLeast != "" }

// Renew lets a caller who wants newer policy than was pinned have it, once, and pins that. It is called before the
// first decision, by the goroutine of the request. An error refuses the request, now and later.
func (h *State) Renew(newer func(token string) (*snapshot.Snapshot, error)) error {
	if !h.Waits() || h.refused != nil {
		return h.refused
	}
	s, err := newer(h.atLeast)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.refused = err
		return err
	}
	if h.Instant.IsZero() {
		s = s.Unknown()
	} else {
		s = s.At(h.Instant)
	}
	h.Snapshot, h.atLeast = s, ""
	return nil
}

// Refused is why the caller did not get newer policy; nil if that was not asked for or is there.
func (h *State) Refused() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// Wrote notes the revision of an object of policy that the request has written or deleted.
func (h *State) Wrote(e revision.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = h.written.With(e)
}

// Written is what the request has written, with the newest revision of each source.
func (h *State) Written() revision.Vector {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.written
}

// Put fills a slot. Attributes are those the pass is about; the enforcer compares them with what it admits.
func (h *State) Put(slot Slot, attrs authorizer.Attributes, p Pass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passes[slot] = p
	if slot == Request {
		h.attrs = attrs
	}
}

// NoteBy notes which link of the chain has allowed what a slot is about.
func (h *State) NoteBy(slot Slot, link string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[slot] = link
}

// By is the link that has allowed what a slot is about; empty if that is not decided.
func (h *State) By(slot Slot) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[slot]
}

// Uses reports whether the request uses a grant for the first time: it is admitted once for every attempt to store.
func (h *State) Uses(grant types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[grant] {
		return false
	}
	if h.used == nil {
		h.used = map[types.UID]bool{}
	}
	h.used[grant] = true
	return true
}

// Get reads a slot; an empty slot is the denying zero value.
func (h *State) Get(slot Slot) Pass {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passes[slot]
}

// Attributes returns what the Request slot was decided about, or nil while it is empty.
func (h *State) Attributes() authorizer.Attributes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attrs
}
