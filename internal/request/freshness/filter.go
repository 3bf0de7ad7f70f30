package freshness

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// Header is, in the response to a write or deletion of policy, its revision.
	Header = "Proviso-Policy-Revision"
	// AtLeast is, in a request, the revision that the policy must have at least.
	AtLeast = "Proviso-At-Least-Revision"
)

// Pin gives a request that asks for newer policy its holder. The gate waits for the policy once it is known who asks;
// upstream can only refuse with 403 there, and so what is refused for this reason is answered anew.
func Pin(w http.ResponseWriter, r *http.Request, now *snapshot.Snapshot, token string) (http.ResponseWriter, *http.Request) {
	ctx, holder := requestctx.WithAtLeast(r.Context(), now, token)
	return responsewriter.WrapForHTTP1Or2(&refusal{ResponseWriter: w, holder: holder}), r.WithContext(ctx)
}

// refusal replaces what upstream says of a request whose policy is not new enough.
type refusal struct {
	http.ResponseWriter
	holder   *requestctx.State
	replaced bool
}

var _ responsewriter.UserProvidedDecorator = (*refusal)(nil)

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *refusal) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader replaces the answer if the request was refused.
func (w *refusal) WriteHeader(code int) {
	var status apierrors.APIStatus
	if w.replaced || code < http.StatusBadRequest || !errors.As(w.holder.Refused(), &status) {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	w.replaced = true
	s := status.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	body, err := json.Marshal(s)
	if err != nil {
		body = nil
	}
	for _, name := range []string{"Content-Length", "Content-Encoding"} {
		w.Header().Del(name)
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.ResponseWriter.WriteHeader(int(s.Code))
	_, _ = w.ResponseWriter.Write(body) // a client that has left does not care
}

// Write implements http.ResponseWriter.
func (w *refusal) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Receipt tells who writes or deletes policy which revision that has (TR-13).
func Receipt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder := requestctx.From(r.Context())
		if info, ok := request.RequestInfoFrom(r.Context()); holder == nil || !ok || !writes(info) {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(&receipt{ResponseWriter: w, holder: holder}), r)
	})
}

// policyGroups are the groups whose resources are policy, or views on it.
var policyGroups = map[string]bool{
	"policy.proviso.dev": true, "authorization.proviso.dev": true, "auditregistration.k8s.io": true,
	"rbac.authorization.k8s.io": true, "apiextensions.k8s.io": true,
}

func writes(info *request.RequestInfo) bool {
	return verbs.IsWrite(info.Verb) && (policyGroups[info.APIGroup] || info.APIGroup == "" && revision.IsSource(info.Resource))
}

// receipt sets the header before the first byte.
type receipt struct {
	http.ResponseWriter
	holder *requestctx.State
	begun  bool
}

var _ responsewriter.UserProvidedDecorator = (*receipt)(nil)

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *receipt) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *receipt) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *receipt) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *receipt) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if written := w.holder.Written(); len(written) > 0 {
		w.Header().Set(Header, written.Token())
	}
}
