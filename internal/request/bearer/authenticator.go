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

// The audit annotations of a request with a narrowed token. None of them contains the token.
const (
	AnnotationToken   = "authentication.proviso.dev/token"
	AnnotationLinks   = "authentication.proviso.dev/token-links"
	AnnotationRefused = "authentication.proviso.dev/token-refused"
)

// maxRead is how many parsed tokens are cached. Whether they are still valid is checked every time.
const maxRead = 4096

// Config configures the authenticator.
type Config struct {
	// Next authenticates every other credential.
	Next authenticator.Request
	// Keys are the root keys.
	Keys narrowedtoken.Keys
	// Holds says why a token is no longer valid, for TokenReviews, which confirm it without a decision.
	Holds Holds
}

// Holds knows whether a token is still valid.
type Holds interface {
	// Ended says why it is not; empty if it is.
	Ended(ctx context.Context, token *narrowedtoken.Token) string
}

// Authenticator recognises narrowed tokens, and leaves every other credential to the next authenticator.
type Authenticator struct {
	cfg             Config
	header, upgrade authenticator.Request
	read            *lru.Cache
}

var _ authenticator.Request = (*Authenticator)(nil)

// New returns the authenticator.
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

// others asks the other authenticators, and records the user. It inspects the credential of a request for a narrowed
// token.
func (a *Authenticator) others(r *http.Request) (*authenticator.Response, bool, error) {
	asks := asksForToken(r)
	var sent string
	if asks {
		header, protocol := inHeader(r), inProtocol(r)
		if header != "" && protocol != "" {
			return nil, false, errTwo // it would not be known which of them counted
		}
		sent = header + protocol
	}
	response, ok, err := a.cfg.Next.AuthenticateRequest(r)
	holder := requestctx.From(r.Context())
	if !ok || err != nil || holder == nil {
		return response, ok, err
	}
	b := &requestctx.Bearer{User: response.User}
	if asks {
		if err := inspect(b, r, sent); err != nil {
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

// inProtocol is the bearer token among the protocols of a web socket. A narrowed token is found beside others, too.
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

// recognizer is the authenticator of tokens with our prefix.
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
	holder.Bears(&requestctx.Bearer{User: u, Token: token, Inspected: true, Until: token.Expires(), Bound: token.Payload.Bound})
	annotate(ctx, token)
	return &authenticator.Response{User: u.asRequestor()}, true, nil
}

// parse reads a token, or takes it from the cache.
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

// confirm answers a TokenReview, where no request carries the token: only for the audience that the token names. The
// caller then gets the links, which limit only what it asks this server about (TK-5).
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

// annotate records in the audit event which token it is.
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

// nothingBound is for a host that does not know service accounts: a bound token is not valid there.
type nothingBound struct{}

// Check implements authorize.Bound.
func (nothingBound) Check(context.Context, *narrowedtoken.Bound) error {
	return errors.New("this server does not know what it is bound to")
}

// NothingBound refuses tokens that are bound to something.
func NothingBound() authorize.Bound { return nothingBound{} }
