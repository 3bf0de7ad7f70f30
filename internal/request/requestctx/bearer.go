package requestctx

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// Bearer is what authentication knows of the credential of a request. It stays through impersonation, which replaces
// the user with all that the user carries.
type Bearer struct {
	// User is who was authenticated.
	User user.Info
	// Token is the narrowed token; nil if the credential is another one.
	Token *narrowedtoken.Token
	// Until is when the credential ends; zero if that is not known.
	Until time.Time
	// Bound is what the credential is bound to; nil if it is not, or if that was not looked at.
	Bound *narrowedtoken.Bound
}

// TokenUser is a user with a narrowed token. CEL's authorizer asks without a context of ours, so that the user carries
// it, too.
type TokenUser interface {
	user.Info
	NarrowedToken() *narrowedtoken.Token
}

// Bears leaves what is known of the credential.
func (h *State) Bears(b *Bearer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.bearer = b
}

// BearerOf is what is known of the credential; nil if nothing is.
func BearerOf(ctx context.Context) *Bearer { return From(ctx).goingOn().bearer }

// TokenOf is the narrowed token that the request came with; nil if it came with none.
func TokenOf(ctx context.Context) *narrowedtoken.Token {
	if b := BearerOf(ctx); b != nil {
		return b.Token
	}
	return nil
}

// AboutOthers is the context for a question about another user than the caller: the caller's token does not limit what
// others can do. Without a token it is the context itself.
func AboutOthers(ctx context.Context) context.Context {
	if TokenOf(ctx) == nil {
		return ctx
	}
	before := From(ctx)
	sections := before.goingOn()
	sections.bearer = nil
	return context.WithValue(ctx, key{}, &State{Snapshot: before.Snapshot, Instant: before.Instant, sections: sections})
}
