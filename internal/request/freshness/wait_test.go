package freshness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const policies, roles = "policies.policy.proviso.dev", "roles.rbac.authorization.k8s.io"

// clock is a source that is as new as it is told to be.
type clock struct {
	mu    sync.Mutex
	at    revision.Vector
	moved func()
}

func (c *clock) Revision() revision.Vector {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) OnMoved(moved func()) { c.moved = moved }

func (c *clock) set(e ...revision.Entry) {
	c.mu.Lock()
	c.at = revision.Of(e...)
	c.mu.Unlock()
	c.moved()
}

func running(t *testing.T) (*clock, *Waiting) {
	t.Helper()
	store, c := snapshot.NewStore(), &clock{}
	store.Follow(c)
	c.set(revision.Entry{Source: policies, At: 10, State: 1}, revision.Entry{Source: roles, At: 20, State: 2})
	store.Publish()
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go store.Run(stop)
	w := &Waiting{Store: store, Patience: time.Minute}
	w.Follow(hundred{})
	return c, w
}

// hundred is a store in which every source is at revision 100.
type hundred struct{}

func (hundred) Newest(_ context.Context, source string) (uint64, error) {
	return map[string]uint64{policies: 100, roles: 100}[source], nil
}

func token(source string, at uint64) string {
	return revision.Of(revision.Entry{Source: source, At: at}).Token()
}

// TR-14: who asks for what is there gets it at once, who asks for what is coming waits, and the rest is refused.
func TestReach(t *testing.T) {
	c, w := running(t)
	ctx := t.Context()
	for _, at := range []uint64{5, 10} {
		if s, err := w.Reach(ctx, "edgar", token(policies, at)); err != nil || s.Revision.Token() == "" {
			t.Errorf("at %d: %v", at, err)
		}
	}
	done := make(chan error)
	go func() {
		s, err := w.Reach(ctx, "edgar", token(policies, 11))
		if err == nil && len(s.Revision.Vector.Lacks(revision.Of(revision.Entry{Source: policies, At: 11}))) > 0 {
			err = errors.New("the snapshot is older than it was asked for")
		}
		done <- err
	}()
	c.set(revision.Entry{Source: policies, At: 10, State: 1}, revision.Entry{Source: roles, At: 30, State: 2}) // another source
	c.set(revision.Entry{Source: policies, At: 11, State: 3}, revision.Entry{Source: roles, At: 30, State: 2})
	if err := <-done; err != nil {
		t.Errorf("what is coming: %v", err)
	}
	begin := time.Now()
	for want, asked := range map[string]string{
		"does not exist yet: the newest is 100": token(policies, 101),
		"not a source of this server":           token("namespaces", 1),
		"not a policy revision":                 "non sense",
	} {
		if _, err := w.Reach(ctx, "edgar", asked); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if waited := time.Since(begin); waited > 30*time.Second { // and not the minute of its patience
		t.Errorf("what cannot come is waited for: %v", waited)
	}
	w.Patience = time.Millisecond
	_, err := w.Reach(ctx, "edgar", token(policies, 50))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), policies+" at 11, and not at 50") {
		t.Errorf("what does not come: %v", err)
	}
	if w.all != 0 || len(w.waiting) != 0 {
		t.Errorf("%d still wait: %v", w.all, w.waiting)
	}
}

// TR-14: who waits is bounded, for each user and for all.
func TestWaitersAreBounded(t *testing.T) {
	w := &Waiting{}
	for range maxEach {
		if err := w.enter("edgar"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.enter("edgar"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more of edgar: %v", err)
	}
	if err := w.enter("mona"); err != nil {
		t.Errorf("mona does not get a place: %v", err)
	}
	w.leave("edgar")
	if err := w.enter("edgar"); err != nil {
		t.Errorf("a place that was given back: %v", err)
	}
	for i := w.all; i < maxWaiters; i++ {
		if err := w.enter(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.enter("nobody"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more of all: %v", err)
	}
}

// What is refused because the policy is not new enough is answered with the reason, whatever upstream makes of it.
func TestRefusalIsAnsweredAnew(t *testing.T) {
	for _, refused := range []bool{true, false} {
		recorded := httptest.NewRecorder()
		var holder *requestctx.State
		Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			holder = requestctx.From(r.Context())
			err := holder.Renew(func(string) (*snapshot.Snapshot, error) {
				if refused {
					return nil, behind(&snapshot.Snapshot{}, revision.Of(revision.Entry{Source: policies, At: 5}), "not yet")
				}
				return &snapshot.Snapshot{Generation: 7}, nil
			})
			if (err != nil) != refused {
				t.Error(err)
			}
			http.Error(w, "forbidden", http.StatusForbidden)
		}), recorded, httptest.NewRequest(http.MethodPost, "/", nil), &snapshot.Snapshot{}, time.Time{}, token(policies, 5))
		body, want, code := recorded.Body.String(), "forbidden", http.StatusForbidden
		if refused {
			want, code = `"reason":"Conflict"`, http.StatusConflict
		}
		if recorded.Code != code || !strings.Contains(body, want) || refused && strings.Contains(body, "forbidden") {
			t.Errorf("refused %v: %d %s", refused, recorded.Code, body)
		}
		if !refused && holder.Snapshot.Generation != 7 {
			t.Error("the newer policy is not pinned")
		}
	}
}
