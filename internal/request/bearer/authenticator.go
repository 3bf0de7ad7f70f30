package bearer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/lru"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// The audit annotations of a request with a narrowed token. None of them has the token.
const (
	AnnotationToken   = "authentication.proviso.dev/token"
	AnnotationLinks   = "authentication.proviso.dev/token-links"
	AnnotationRefused = "authentication.proviso.dev/token-refused"
)

// maxRead is how many tokens are remembered as they were read. Whether they hold is asked every time.
const maxRead = 4096

// Config is what narrowed tokens are recognised by.
type Config struct {
	// Next recognises every other credential.
	Next authenticator.Request
	// Keys are the root keys.
	Keys narrowedtoken.Keys
	// Holds is why a token does not hold any more, for those who confirm it without asking for a decision.
	Holds Holds
}

// Holds knows whether a token still holds.
type Holds interface {
	// Ended is why it does not; empty if it does.
	Ended(ctx context.Context, token *narrowedtoken.Token) string
}

// Authenticator recognises narrowed tokens, and leaves every other credential to others.
type Authenticator struct {
	cfg             Config
	header, upgrade authenticator.Request
	read            *lru.Cache
}

var _ authenticator.Request = (*Authenticator)(nil)

// New makes it.
func New(cfg Config) *Authenticator {
	a := &Authenticator{cfg: cfg, read: lru.New(maxRead)}
	a.header, a.upgrade = bearertoken.New(recognizer{a}), websocket.NewProtocolAuthenticator(recognizer{a})
	return a
}

var (
	// errInvalid is all that the caller is told.
	errInvalid = errors.New("invalid narrowed token")
	errTwo     = errors.New("a request has one bearer token")
)

// AuthenticateRequest implements authenticator.Request.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	sent, upgraded := inHeader(r), inProtocol(r)
	switch {
	case !narrowedtoken.Is(sent) && !narrowedtoken.Is(upgraded):
		return a.others(r)
	case sent != "" && upgraded != "":
		return nil, false, errTwo
	case sent != "":
		return a.header.AuthenticateRequest(r)
	}
	return a.upgrade.AuthenticateRequest(r)
}

// others asks the other authenticators, and notes who it is. A credential that asks for a narrowed token is looked at.
func (a *Authenticator) others(r *http.Request) (*authenticator.Response, bool, error) {
	asks := asksForToken(r)
	var jwt string
	if asks {
		jwt = inHeader(r)
	}
	response, ok, err := a.cfg.Next.AuthenticateRequest(r)
	holder := requestctx.From(r.Context())
	if !ok || err != nil || holder == nil {
		return response, ok, err
	}
	b := &requestctx.Bearer{User: response.User}
	if asks {
		b.Until, b.Bound, err = credential(r, response.User, jwt)
		if err != nil {
			return nil, false, err
		}
	}
	holder.Bears(b)
	return response, ok, nil
}

// inHeader is the bearer token of the header, as upstream reads it.
func inHeader(r *http.Request) string {
	parts := strings.SplitN(strings.TrimSpace(r.Header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

const protocolPrefix = "base64url.bearer.authorization.k8s.io."

// inProtocol is the bearer token among the protocols of a web socket. One of ours is found beside others, too.
func inProtocol(r *http.Request) (found string) {
	for _, header := range r.Header["Sec-Websocket-Protocol"] {
		for protocol := range strings.SplitSeq(header, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), protocolPrefix)
			if !ok {
				continue
			}
			token, err := base64.RawURLEncoding.DecodeString(encoded)
			if err == nil && (found == "" || narrowedtoken.Is(string(token))) {
				found = string(token)
			}
		}
	}
	return found
}

// recognizer is the authenticator of tokens that begin like ours.
type recognizer struct{ *Authenticator }

// AuthenticateToken implements authenticator.Token.
func (a recognizer) AuthenticateToken(ctx context.Context, text string) (*authenticator.Response, bool, error) {
	token, err := a.parse(text)
	if err != nil {
		audit.AddAuditAnnotation(ctx, AnnotationRefused, abridged(err.Error()))
		return nil, false, errInvalid
	}
	holder := requestctx.From(ctx)
	if holder == nil {
		return a.confirm(ctx, token)
	}
	u := NewUser(userOf(token), token)
	holder.Bears(&requestctx.Bearer{User: u, Token: token, Until: token.Expires(), Bound: token.Payload.Bound})
	annotate(ctx, token)
	return &authenticator.Response{User: u.asRequestor()}, true, nil
}

// parse reads a token, or remembers how it was read.
func (a *Authenticator) parse(text string) (*narrowedtoken.Token, error) {
	if len(text) > narrowedtoken.MaxSize {
		return narrowedtoken.Verify(a.cfg.Keys, text) // which says so
	}
	sum := sha256.Sum256([]byte(text))
	if known, ok := a.read.Get(sum); ok {
		if token, ok := known.(*narrowedtoken.Token); ok {
			return token, nil
		}
	}
	token, err := narrowedtoken.Verify(a.cfg.Keys, text)
	if err != nil {
		return nil, err
	}
	a.read.Add(sum, token)
	return token, nil
}

// confirm answers a TokenReview, which comes without a request of ours: only for the audience that the token names.
// The caller then knows the links, and nobody decides by them but those who ask back (TK-5).
func (a *Authenticator) confirm(ctx context.Context, token *narrowedtoken.Token) (*authenticator.Response, bool, error) {
	audiences, _ := authenticator.AudiencesFrom(ctx)
	if token.Payload.Audience == "" || !audiences.Has(token.Payload.Audience) {
		return nil, false, errInvalid
	}
	if why := a.cfg.Holds.Ended(ctx, token); why != "" {
		return nil, false, errInvalid
	}
	u := NewUser(userOf(token), token)
	return &authenticator.Response{User: &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()},
		Audiences: authenticator.Audiences{token.Payload.Audience}}, true, nil
}

// annotate says in the audit event which token it is.
func annotate(ctx context.Context, token *narrowedtoken.Token) {
	audit.AddAuditAnnotation(ctx, AnnotationToken, token.Payload.ID)
	descriptions := make([]string, 0, len(token.Links))
	for i := range token.Links {
		descriptions = append(descriptions, token.Links[i].Description)
	}
	audit.AddAuditAnnotation(ctx, AnnotationLinks, strings.Join(descriptions, " → "))
}

// abridged keeps an annotation short.
func abridged(text string) string {
	const limit = 256
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

var _ authorize.Bound = nothingBound{}

// nothingBound is what a host has that knows no service accounts: what is bound does not hold.
type nothingBound struct{}

// Check implements authorize.Bound.
func (nothingBound) Check(context.Context, *narrowedtoken.Bound) error {
	return errors.New("this server does not know what it is bound to")
}

// NothingBound refuses tokens that are bound to something.
func NothingBound() authorize.Bound { return nothingBound{} }
