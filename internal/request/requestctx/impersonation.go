package requestctx

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Impersonation is a request in the name of another user. Authentication leaves it, before the filter of impersonation
// replaces the user and takes the headers away.
type Impersonation struct {
	// By is who was authenticated, and Header says in whose name the request is made.
	By     user.Info
	Header http.Header

	// verb and allowed are the last question about it.
	verb    string
	allowed bool
}

// Impersonates leaves the impersonation.
func (h *State) Impersonates(i *Impersonation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.impersonation = i
}

// ImpersonationOf is the impersonation; nil if nothing is known of one.
func ImpersonationOf(ctx context.Context) *Impersonation { return From(ctx).goingOn().impersonation }

// Asked notes a question about it, and the answer. Only the goroutine of the request asks.
func (i *Impersonation) Asked(verb string, allowed bool) {
	if i != nil {
		i.verb, i.allowed = verb, allowed
	}
}

// Last is the last question that was asked about it; the verb is empty if there was none.
func (i *Impersonation) Last() (verb string, allowed bool) { return i.verb, i.allowed }
