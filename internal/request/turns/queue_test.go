package turns

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

// NI-6: few run at a time, each caller one, and nobody waits for ever.
func TestFewRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Slots: 2}
		var running, most atomic.Int32
		var perUser [3]atomic.Int32
		var all sync.WaitGroup
		for i := range 3 * maxWaiting {
			all.Go(func() {
				done, err := q.Take(t.Context(), named(fmt.Sprint("user", i%3)))
				if err != nil {
					t.Error(err)
					return
				}
				defer done()
				if now := running.Add(1); now > most.Load() {
					most.Store(now)
				}
				if perUser[i%3].Add(1) > 1 {
					t.Error("two turns of one user at a time")
				}
				time.Sleep(time.Second)
				perUser[i%3].Add(-1)
				running.Add(-1)
			})
		}
		all.Wait()
		if most.Load() != 2 {
			t.Errorf("%d ran at a time, want 2", most.Load())
		}
		if len(q.lanes) != 0 || q.running != 0 || q.waiting != 0 || len(q.ready) != 0 {
			t.Errorf("something is left: %+v", q)
		}
	})
}

// NI-6: somebody who comes after many of another caller waits for one of them, not for all.
func TestCallersGoRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Slots: 1}
		var all sync.WaitGroup
		work := func(who string) time.Duration {
			began := time.Now()
			done, err := q.Take(t.Context(), named(who))
			if err != nil {
				t.Error(err)
				return 0
			}
			defer done()
			waited := time.Since(began)
			time.Sleep(time.Second)
			return waited
		}
		for range maxWaiting {
			all.Go(func() { work("eve") })
		}
		synctest.Wait()
		if waited := work("alice"); waited > 2*time.Second {
			t.Errorf("alice waited %v for somebody who has %d turns to take", waited, maxWaiting)
		}
		all.Wait()
	})
}

// NI-6: what waits is bounded, for each caller and for all; beyond that a caller is told when to try again.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Slots: 1}
		ctx, cancel := context.WithCancel(t.Context())
		first, err := q.Take(ctx, named("eve"))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		wait := func(who string) {
			all.Go(func() {
				if done, err := q.Take(ctx, named(who)); err == nil {
					done()
				} else if !apierrors.IsTooManyRequests(err) {
					t.Error(err)
				}
			})
		}
		for range maxWaiting {
			wait("eve")
		}
		synctest.Wait()
		_, err = q.Take(ctx, named("eve"))
		if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != retryAfter || !strings.Contains(err.Error(), "try again") {
			t.Errorf("one too many of a caller: %v", err)
		}
		for i := range maxWaitingTogether - maxWaiting {
			wait(fmt.Sprint("system:serviceaccount:ns", i, ":bot"))
		}
		synctest.Wait()
		if _, err := q.Take(ctx, named("alice")); !apierrors.IsTooManyRequests(err) {
			t.Errorf("one too many of all: %v", err)
		}
		cancel() // the requests end: nobody is left who waits, and the turn that runs is not lost
		all.Wait()
		if q.waiting != 0 || len(q.ready) != 0 || len(q.lanes) != 1 || q.running != 1 {
			t.Errorf("%d wait, %d lanes are ready of %d, %d run", q.waiting, len(q.ready), len(q.lanes), q.running)
		}
		first()
		first() // ends it once
		done, err := q.Take(t.Context(), named("alice"))
		if err != nil || q.running != 1 {
			t.Errorf("after all are gone: %v, %d run", err, q.running)
		}
		done()
	})
}

// NI-6: the service accounts of a namespace are one caller, and long names take no more memory than short ones.
func TestWhoIsOneCaller(t *testing.T) {
	same := func(a, b string) bool { return keyOf(named(a)) == keyOf(named(b)) }
	if !same("system:serviceaccount:hammer:a", "system:serviceaccount:hammer:b") {
		t.Error("two service accounts of a namespace are two callers")
	}
	for _, other := range []string{"system:serviceaccount:anvil:a", "hammer", "user hammer", "namespace hammer"} {
		if same("system:serviceaccount:hammer:a", other) {
			t.Errorf("%q is the same caller as a service account of hammer", other)
		}
	}
	if len(keyOf(named(strings.Repeat("x", 1<<16)))) != 32 {
		t.Error("a key is as long as a name")
	}
	var none *Queue
	if done, err := none.Take(t.Context(), named("eve")); err != nil {
		t.Error(err)
	} else {
		done()
	}
}
