package requestctx

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Impersonation describes an impersonated request. Authentication records it, before the impersonation filter replaces
// the user and removes the headers.
type Impersonation struct {
	// By is the authenticated user, and Header names the impersonated one.
	By     user.Info
	Header http.Header

	// verb and allowed are the last question about it, with the answer.
	verb    string
	allowed bool
}

// Impersonates stores the impersonation.
func (h *State) Impersonates(i *Impersonation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.impersonation = i
}

// ImpersonationOf returns the impersonation; nil if none is known.
func ImpersonationOf(ctx context.Context) *Impersonation { return From(ctx).goingOn().impersonation }

// Asked records a question about it, and the answer. Only the goroutine of the request asks.
func (i *Impersonation) Asked(verb string, allowed bool) {
	if i != nil {
		i.verb, i.allowed = verb, allowed
	}
}

// Last returns the last question about it; the verb is empty if there was none.
func (i *Impersonation) Last() (verb string, allowed bool) { return i.verb, i.allowed }
