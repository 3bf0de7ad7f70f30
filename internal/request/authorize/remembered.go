package authorize

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Upstream's filter remembers for ten seconds who may act as whom, and does not ask an authorizer in that time. A right
// that has ended or was revoked would last that much longer. So a filter that remembers nothing asks again about each
// impersonated request about which the gate was not asked (TM-3).

// Recalling wraps an authenticator and records in the state of a request who wants to act as whom.
func Recalling(next authenticator.Request) authenticator.Request { return recalling{next} }

type recalling struct{ next authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (r recalling) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	resp, ok, err := r.next.AuthenticateRequest(req)
	if state := requestctx.From(req.Context()); ok && err == nil && state != nil && req.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
		state.Impersonates(&requestctx.Impersonation{By: resp.User, Header: impersonating(req.Header)})
	}
	return resp, ok, err
}

// impersonating returns the headers that name the impersonated user.
func impersonating(all http.Header) http.Header {
	some := http.Header{}
	for name, values := range all {
		if strings.HasPrefix(name, "Impersonate-") {
			some[name] = values
		}
	}
	return some
}

// isRemembered reports whether a request is impersonated and the gate was not asked whether that is allowed. The
// filter's last question is about the user, unless it remembers the answer.
func isRemembered(ctx context.Context) bool {
	if !journal.IsImpersonated(ctx) {
		return false
	}
	i := requestctx.ImpersonationOf(ctx)
	if i == nil {
		return true
	}
	verb, allowed := i.Last()
	return !allowed || strings.HasPrefix(verb, "impersonate-on:")
}

// impersonatesStill asks again whether the impersonation of a request is allowed.
func (g *Gate) impersonatesStill(ctx context.Context) bool {
	i := requestctx.ImpersonationOf(ctx)
	info, known := request.RequestInfoFrom(ctx)
	if i == nil || !known {
		return false
	}
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: info.Path}, Header: i.Header.Clone()}).WithContext(request.WithUser(ctx, i.By))
	passed := false
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })
	upstream.WithConstrainedImpersonation(next, g.AtFilter(), policycodec.Codecs).ServeHTTP(unheard{}, req)
	return passed
}

const notAnyMore = "the right to act as another user has ended, or was taken away"

// unheard is a response writer that discards everything.
type unheard struct{}

// Header implements http.ResponseWriter.
func (unheard) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (unheard) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (unheard) WriteHeader(int) {}
