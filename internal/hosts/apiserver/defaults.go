package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// The hooks that create Kubernetes' default roles and priority classes wait a second before they first try, and the
// server is not ready before they are done. Here they begin to wait while the server is still being built, and their
// requests are held back until it serves.

// promptHooks lets those hooks wait early. config reaches the server.
func promptHooks(providers []controlplaneapiserver.RESTStorageProvider, config *rest.Config) {
	for i, p := range providers {
		if hooked, ok := p.(genericapiserver.PostStartHookProvider); ok {
			providers[i] = promptProvider{p, hooked, config}
		}
	}
}

type promptProvider struct {
	controlplaneapiserver.RESTStorageProvider
	hooked genericapiserver.PostStartHookProvider
	config *rest.Config
}

// PostStartHook implements genericapiserver.PostStartHookProvider.
func (p promptProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	name, hook, err := p.hooked.PostStartHook()
	if err == nil && (name == rbacrest.PostStartHookName || name == schedulingrest.PostStartHookName) {
		hook = prompt(hook, p.config)
	}
	return name, hook, err
}

// prompt begins a hook at once. If that comes to nothing, the hook is run again when its time has come.
func prompt(hook genericapiserver.PostStartHookFunc, config *rest.Config) genericapiserver.PostStartHookFunc {
	serving, done := make(chan struct{}), make(chan error, 1)
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return heldTransport{next, serving} })
	go func() {
		done <- hook(genericapiserver.PostStartHookContext{Context: context.Background(), LoopbackClientConfig: config})
	}()
	return func(ctx genericapiserver.PostStartHookContext) error {
		close(serving)
		select {
		case <-ctx.Done(): // an error would end the process at once, and it is about to end in order
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				again := rest.CopyConfig(ctx.LoopbackClientConfig)
				again.Wrap(func(next http.RoundTripper) http.RoundTripper { return heldTransport{next, serving} })
				ctx.LoopbackClientConfig = again
				return hook(ctx)
			}
		}
		return nil
	}
}

// patience is how long a request is held back. A server that is never started leaves nothing behind.
const patience = 30 * time.Second

// heldTransport holds requests back until the server serves. The hooks list only to see whether storage answers: one
// object tells, and all cluster role bindings can be a million.
type heldTransport struct {
	next    http.RoundTripper
	serving <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (t heldTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-t.serving:
	case <-time.After(patience):
		return nil, errors.New("the server does not serve yet")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if q := r.URL.Query(); r.Method == http.MethodGet && !q.Has("limit") {
		r = r.Clone(r.Context())
		q.Set("limit", "1") // means nothing to a get
		r.URL.RawQuery = q.Encode()
	}
	return t.next.RoundTrip(r)
}
