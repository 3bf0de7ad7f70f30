package bearer

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// ExtraID is the key in a user's extra that holds the id of the token.
const ExtraID = "authentication.proviso.dev/token-id"

// extraChain is the prefix of a key whose name identifies the chain: upstream remembers impersonations by the user, and
// in one mode only by the names of extra. So what was allowed without the token, or with a longer chain of it, is never
// reused (TK-4).
const extraChain = "authentication.proviso.dev/token-chain."

// extraPrefix is the prefix of all keys that only this package sets.
const extraPrefix = "authentication.proviso.dev/"

// User is a user with a narrowed token.
type User struct {
	user.Info
	token *narrowedtoken.Token
}

var _ requestctx.TokenUser = (*User)(nil)

// NewUser attaches a token to a user.
func NewUser(u user.Info, token *narrowedtoken.Token) *User {
	if already, ok := u.(*User); ok {
		u = already.Info
	}
	return &User{u, token}
}

func userOf(token *narrowedtoken.Token) user.Info {
	u := token.Payload.User
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// NarrowedToken implements requestctx.TokenUser.
func (u *User) NarrowedToken() *narrowedtoken.Token { return u.token }

// GetExtra adds the token's id, and its links by value: aggregated servers ask back with them.
func (u *User) GetExtra() map[string][]string {
	extra := Without(u.Info.GetExtra())
	extra[ExtraID], extra[authorize.ExtraLinks] = []string{u.token.Payload.ID}, u.token.Texts
	return extra
}

// Without returns extra without the keys that this package sets.
func Without(extra map[string][]string) map[string][]string {
	out := maps.Clone(extra)
	if out == nil {
		out = map[string][]string{}
	}
	maps.DeleteFunc(out, func(key string, _ []string) bool { return strings.HasPrefix(key, extraPrefix) })
	return out
}

// asRequestor returns the user between authentication and authorization, where impersonations are remembered and audit
// events begin. It has an identifier of the chain instead of its links.
func (u *User) asRequestor() *requestor { return &requestor{u} }

type requestor struct{ *User }

// GetExtra implements user.Info.
func (r *requestor) GetExtra() map[string][]string {
	extra := Without(r.User.Info.GetExtra())
	sum := sha256.Sum256([]byte(strings.Join(r.token.Texts, "\n")))
	extra[ExtraID], extra[extraChain+hex.EncodeToString(sum[:8])] = []string{r.token.Payload.ID}, []string{}
	return extra
}

// Carry is a filter behind authorization: from there on the user carries the token of the request, also if
// impersonation has replaced the user.
func Carry(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := requestctx.TokenOf(r.Context())
		if u, ok := request.UserFrom(r.Context()); token != nil && ok {
			if named, is := u.(*requestor); is {
				u = named.User
			}
			r = r.WithContext(request.WithUser(r.Context(), NewUser(u, token)))
		}
		next.ServeHTTP(w, r)
	})
}
