package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
)

// A hook that begins early reaches the server only once it serves, does not read all there is, and is run again if
// beginning early came to nothing.
func TestHooksThatBeginEarly(t *testing.T) {
	var asked atomic.Int32
	var serves atomic.Bool
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !serves.Load() {
			t.Error("asked before the server serves")
		}
		if got := r.URL.Query().Get("limit"); got != "1" {
			t.Errorf("asked for %q objects", got)
		}
	}))
	defer backend.Close()
	config := &rest.Config{Host: backend.URL}
	for _, failures := range []int32{0, 1} {
		var runs atomic.Int32
		begun := make(chan struct{}, 2)
		asked.Store(0)
		serves.Store(false)
		hook := prompt(func(ctx server.PostStartHookContext) error {
			begun <- struct{}{}
			if runs.Add(1) <= failures {
				return errors.New("not yet")
			}
			client, err := rest.HTTPClientFor(ctx.LoopbackClientConfig)
			if err != nil {
				return err
			}
			answer, err := client.Get(ctx.LoopbackClientConfig.Host + "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}, config)
		<-begun // before the server calls it
		serves.Store(true)
		if err := hook(server.PostStartHookContext{Context: t.Context(), LoopbackClientConfig: config}); err != nil {
			t.Fatal(err)
		}
		if asked.Load() != 1 || runs.Load() != failures+1 {
			t.Errorf("asked %d times in %d runs", asked.Load(), runs.Load())
		}
	}
}

// A server that is stopped before its hooks are done does not wait for them. It ends in order: an error of a hook would
// end the process.
func TestHooksOfAServerThatStops(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hook := prompt(func(server.PostStartHookContext) error { <-release; return nil }, &rest.Config{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := hook(server.PostStartHookContext{Context: ctx, LoopbackClientConfig: &rest.Config{}}); err != nil {
		t.Fatal(err)
	}
}
