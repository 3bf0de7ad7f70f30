package authorize

import (
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// TK-6: a token may end itself, and by that exception do nothing else.
func TestATokenMayOnlyEndItself(t *testing.T) {
	ending := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIGroup: "access.proviso.dev", Resource: "tokenrevocations"}
	if !revokes(ending) {
		t.Error("a token cannot end itself")
	}
	for name, change := range map[string]func(*authorizer.AttributesRecord){
		"a path":           func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
		"another verb":     func(a *authorizer.AttributesRecord) { a.Verb = "delete" },
		"another group":    func(a *authorizer.AttributesRecord) { a.APIGroup = "policy.proviso.dev" },
		"another resource": func(a *authorizer.AttributesRecord) { a.Resource = "accessrules" },
		"a subresource":    func(a *authorizer.AttributesRecord) { a.Subresource = "status" },
	} {
		other := ending
		if change(&other); revokes(other) {
			t.Errorf("%s: a token may do it whatever its links say", name)
		}
	}
}

// TK-3: the list of one's rights says that it is more than the token allows; of a user without a token it says nothing.
func TestRulesOfATokenAreIncomplete(t *testing.T) {
	tier := NewToken(snapshot.NewStore(), narrowedtoken.NewCompiler(nil), nil)
	plain := &user.DefaultInfo{Name: "edgar"}
	carries := &tokenUser{plain, &narrowedtoken.Token{}}
	byValue := &user.DefaultInfo{Name: "edgar", Extra: map[string][]string{ExtraLinks: nil}}
	for name, c := range map[string]struct {
		user       user.Info
		incomplete bool
	}{"no token": {plain, false}, "a token": {carries, true}, "links by value": {byValue, true}} {
		if _, _, incomplete, err := tier.RulesFor(t.Context(), c.user, "hammer"); incomplete != c.incomplete || (err != nil) != c.incomplete {
			t.Errorf("%s: incomplete is %v, %v", name, incomplete, err)
		}
	}
}

// TM-3: who wants to act as whom is left in the state of a request that was authenticated, with nothing but the headers
// that say so; of other requests nothing is.
func TestImpersonationIsRecalled(t *testing.T) {
	by := &user.DefaultInfo{Name: "edgar"}
	for name, c := range map[string]struct {
		header  string
		known   bool
		failure error
		want    bool
	}{"impersonates": {"ann", true, nil, true}, "as themselves": {"", true, nil, false}, "not authenticated": {"ann", false, nil, false}, "failed": {"ann", true, http.ErrAbortHandler, false}} {
		next := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: by}, c.known, c.failure
		})
		req := httptest.NewRequest(http.MethodGet, "/api", nil)
		req.Header.Set("Authorization", "Bearer x")
		if c.header != "" {
			req.Header.Set(authenticationv1.ImpersonateUserHeader, c.header)
		}
		req = req.WithContext(requestctx.With(req.Context(), &snapshot.Snapshot{}))
		_, _, _ = Recalling(next).AuthenticateRequest(req)
		i := requestctx.ImpersonationOf(req.Context())
		if (i != nil) != c.want {
			t.Errorf("%s: %+v", name, i)
			continue
		}
		if i != nil && (i.By != user.Info(by) || len(i.Header) != 1 || i.Header.Get(authenticationv1.ImpersonateUserHeader) != c.header) {
			t.Errorf("%s: %+v", name, i)
		}
	}
}
