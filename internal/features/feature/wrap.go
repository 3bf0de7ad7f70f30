package feature

import (
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

// WrapHandlers puts the filters of systems around upstream's, in the handler chain of a server, and the gate at its
// authorization. The existing chain is kept, since other code may have wrapped it already.
func WrapHandlers(generic *genericapiserver.Config, gate *authorize.Gate, store *snapshot.Store, systems []System) {
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = gate.AtFilter()
		if next := filters.Authentication.Authenticator; next != nil { // with the server's own client
			filters.Authentication.Authenticator = authorize.Recalling(next)
		}
		for _, f := range slices.Backward(Filters(systems)) {
			api = f.Wrap(api)
		}
		return pinSnapshot(store, build(api, &filters))
	}
}

// pinSnapshot gives every request its instant, its state and its notes. The policy of this moment decides everything
// later, or the newer one that the request asks for.
func pinSnapshot(store *snapshot.Store, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := requestctx.WithNotes(selfclient.Context(r))
		if r.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
			ctx = journal.Impersonated(ctx)
		}
		snap, instant := store.Now()
		if token := r.Header.Get(freshness.AtLeast); token != "" {
			freshness.Serve(next, w, r.WithContext(ctx), snap, instant, token)
			return
		}
		next.ServeHTTP(w, r.WithContext(requestctx.At(ctx, snap, instant)))
	})
}
