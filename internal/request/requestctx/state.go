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

// Slot identifies which of a request's checks a pass belongs to.
type Slot int

const (
	// Request is the authorization filter's check of the request's own verb.
	Request Slot = iota
	// Create is the second check that the handlers make when an update or an apply turns into a create.
	Create
	// Connect is the check for create on a connect request, made in admission.
	Connect

	slots
)

// Pending is the part of a verdict that waits for the object: the rest of the authorizer chain, bound to the snapshot
// it began with.
type Pending interface {
	// Resolve returns the outcome. It is called once per object (deletecollection has many) and must be a pure function
	// of the request and the data.
	Resolve(ctx context.Context, data authorizer.ConditionsData) Outcome
}

// Outcome is the final decision on one object, and what decided it. What a caller may see (Reason) and what only logs
// and audit may contain (Detail) are separate values. The zero Outcome denies.
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

// Pass is what authorization hands to admission. The zero value denies.
type Pass struct {
	allowed  bool
	pending  Pending
	granular bool
	fields   Pending
	narrowed *Narrowing
}

// Allowed returns a pass without a condition.
func Allowed() Pass { return Pass{allowed: true} }

// Conditional returns a pass that depends on the object.
func Conditional(p Pending) Pass { return Pass{pending: p} }

// Narrowing is what is added to the selectors of a list or watch, so it reads only what its caller may see (RD-1).
type Narrowing struct {
	Box selectors.Box
	// Each decides for each object what the box cannot express; nil if the box expresses everything (RD-10).
	Each Each
	// Union is set if it is composed of what may be seen in single namespaces, or by name (RD-11).
	Union *Union
	// Rules are the IDs of the conditions from which it was computed.
	Rules []string
	// Basis is what it was computed from, for a later comparison; nil if that is not known.
	Basis Basis
}

// Union describes the parts of a list or watch that is not allowed as a whole.
type Union struct {
	// Namespaces are the namespaces in which something may be seen, in the order in which objects are stored.
	Namespaces []string
	// Elsewhere is true if objects outside them may be seen, too: by a condition, or by name.
	Elsewhere bool
	// Themselves is true if the namespaces are the objects.
	Themselves bool
}

// IsEverything reports whether nothing is added: the caller's own selectors imply the condition.
func (n *Narrowing) IsEverything() bool { return n.Each == nil && n.Box.IsEverything() }

// View identifies what a narrowing shows: two with the same view show the same objects. It is a hash, so nothing that a
// caller chose is stored (NI-6).
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

// View is a hash of everything that decides what is seen.
type View [sha256.Size]byte

// Each decides about the objects of a list or watch, one at a time. It is a pure function of the object and, if it
// looks at that, of its namespace.
type Each interface {
	// Shows reports whether an object may be seen. If that cannot be determined, it may not; the error says why.
	Shows(ctx context.Context, data authorizer.ConditionsData) (bool, error)
	// View returns a hash of everything it looks at except the object and its namespace.
	View() View
	// At reports whether an object may be seen, if its namespace and name are enough to know; otherwise known is false.
	At(namespace, name string) (shown, known bool)
	// LooksAtNamespace reports whether the answer depends on the namespace of an object.
	LooksAtNamespace() bool
}

// Basis is everything from which the selectors of one list or watch are computed. Computing them takes milliseconds;
// comparing two bases takes almost no time.
type Basis interface {
	// Equal reports whether the same request gets the same selectors from both.
	Equal(Basis) bool
}

// Narrowed returns a pass for a list or watch that shows only what the narrowing lets through.
func Narrowed(n *Narrowing) Pass { return Pass{narrowed: n} }

// Narrowing returns what has to be added to the selectors; nil for other passes.
func (p Pass) Narrowing() *Narrowing { return p.narrowed }

// Granular returns the pass of a caller who does not have the verb of the request but may have rights to single fields:
// every field that changes has to be covered. Conditional denies of the verb still have to be resolved; they may be
// nil.
func Granular(denies Pending) Pass { return Pass{pending: denies, granular: true} }

// Answered adds an answer that authorization already has: whether the caller may write single fields at all.
func (p Pass) Answered(fields Pending) Pass {
	p.fields = fields
	return p
}

// IsGranular reports whether the request was let through only because of rights to single fields.
func (p Pass) IsGranular() bool { return p.granular }

// Fields resolves whether the caller may write single fields; nil if that was not asked.
func (p Pass) Fields() Pending { return p.fields }

// IsAllowed reports whether the pass allows without looking at the object.
func (p Pass) IsAllowed() bool { return p.allowed }

// Pending returns what is left to decide, or nil.
func (p Pass) Pending() Pending { return p.pending }

// State is everything that travels with one request, under one key of its context. Each part has one writer.
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

// Supposition is a rule that is not enforced and whose effect depends on the object.
type Supposition interface {
	// Settle records what the rule would have decided; allowed is the real decision. It is called once per object.
	Settle(ctx context.Context, data authorizer.ConditionsData, allowed bool)
}

// Suppose adds a supposition to a slot.
func (h *State) Suppose(slot Slot, s Supposition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.supposed[slot] = append(h.supposed[slot], s)
}

// Supposed returns the suppositions of a slot.
func (h *State) Supposed(slot Slot) []Supposition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.supposed[slot]
}

type key struct{}

// With returns a context that carries a state without passes, pinned to the given snapshot. The sections of an existing
// state are kept.
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

// InstantOf returns the instant of the request; zero if it is not known.
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

// WithAtLeast returns a context whose state is pinned to the given snapshot until the caller is known, and then to one
// that is at least as new as the token says.
func WithAtLeast(ctx context.Context, s *snapshot.Snapshot, instant time.Time, token string) (context.Context, *State) {
	h := &State{Snapshot: s, Instant: instant, atLeast: token, sections: From(ctx).goingOn()}
	return context.WithValue(ctx, key{}, h), h
}

// Waits reports whether the caller asks for newer policy than is pinned.
func (h *State) Waits() bool { return h.atLeast != "" }

// Renew gets, once, the newer policy that a caller asks for, and pins it. The goroutine of the request calls it before
// the first decision. An error refuses the request, now and later.
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

// Refused returns why the caller did not get newer policy; nil if the caller did, or did not ask for it.
func (h *State) Refused() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// Wrote records the revision of a policy object that the request has written or deleted.
func (h *State) Wrote(e revision.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = h.written.With(e)
}

// Written returns what the request has written, as the newest revision of each source.
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

// NoteBy records which link of the chain has allowed the check of a slot.
func (h *State) NoteBy(slot Slot, link string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[slot] = link
}

// By returns the link that has allowed the check of a slot; empty if that is not decided.
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
