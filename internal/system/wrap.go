package system

import (
	"net/http"
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/loopback"
	"proviso.dev/proviso/internal/notes"
	"proviso.dev/proviso/internal/snapshot"
)

// WrapHandlers puts the filters of systems around upstream's, in the handler chain of a server, and the gate at its
// authorization. The chain that was built before is kept: others may have wrapped it already.
func WrapHandlers(generic *genericapiserver.Config, gate *authorize.Gate, store *snapshot.Store, systems []System) {
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = gate.AtFilter()
		for _, f := range slices.Backward(Filters(systems)) {
			api = f.Wrap(api)
		}
		return pinSnapshot(store, build(api, &filters))
	}
}

// pinSnapshot gives every request its holder and its notes. The policy of this moment decides everything later.
func pinSnapshot(store *snapshot.Store, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(notes.With(handoff.With(loopback.Context(r), store.Current()))))
	})
}
