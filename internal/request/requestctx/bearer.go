package requestctx

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// Bearer is what authentication knows about the credential of a request. It survives impersonation, which replaces the
// user with everything that the user carries.
type Bearer struct {
	// User is the authenticated user.
	User user.Info
	// Token is the narrowed token; nil for other credentials.
	Token *narrowedtoken.Token
	// Inspected: what the credential is bound to was looked for. Only then a token may be issued for it.
	Inspected bool
	// Until is when the credential expires; zero if that is not known.
	Until time.Time
	// Endless: one of the credentials does not say when it expires, and may be the one that counted.
	Endless bool
	// Bound is what the credential is bound to; nil if it is not, or if that was not looked at.
	Bound *narrowedtoken.Bound
}

// TokenUser is a user with a narrowed token. CEL's authorizer asks without our context, so the user carries the token,
// too.
type TokenUser interface {
	user.Info
	NarrowedToken() *narrowedtoken.Token
}

// Bears stores what is known about the credential.
func (h *State) Bears(b *Bearer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.bearer = b
}

// BearerOf returns what is known about the credential; nil if nothing is.
func BearerOf(ctx context.Context) *Bearer { return From(ctx).goingOn().bearer }

// TokenOf returns the narrowed token of the request; nil if it has none.
func TokenOf(ctx context.Context) *narrowedtoken.Token {
	if b := BearerOf(ctx); b != nil {
		return b.Token
	}
	return nil
}

// AboutOthers returns the context for a question about a user other than the caller: the caller's token does not limit
// what other users can do. Without a token it returns the context itself.
func AboutOthers(ctx context.Context) context.Context {
	if TokenOf(ctx) == nil {
		return ctx
	}
	before := From(ctx)
	sections := before.goingOn()
	sections.bearer = nil
	return context.WithValue(ctx, key{}, &State{Snapshot: before.Snapshot, Instant: before.Instant, sections: sections})
}
