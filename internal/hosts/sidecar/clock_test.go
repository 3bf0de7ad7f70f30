package sidecar

import (
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/state/timekeeper"
	"proviso.dev/proviso/test/etcdtest"
)

// hands are those of a clock that a test sets.
type hands struct {
	timekeeper.Hands
	mu    sync.Mutex
	ahead time.Duration
}

// Now implements timekeeper.Hands.
func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Hands.Now().Round(0).Add(h.ahead)
}

func (h *hands) set(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = ahead
}

// timed is a sidecar with a clock of its own, and what it decides.
type timed struct {
	*hands
	car   *sidecar
	world *world
	leave func()
}

// beside makes sidecars on one etcd, as settings that name its address have it.
func beside(t *testing.T) func(text string, ahead time.Duration, agree bool) *timed {
	t.Helper()
	etcd := etcdtest.Start(t)
	return func(text string, ahead time.Duration, agree bool) *timed {
		t.Helper()
		one := &timed{hands: &hands{Hands: timekeeper.Machine(), ahead: ahead}}
		one.car = &sidecar{settings: &settings{MasterNamespace: "master", Etcd: etcdSettings{Servers: etcd.Endpoints()}}, clock: timekeeper.New(one.hands, timekeeper.DefaultSkew)}
		one.world = newWorldBy(t, text, webhooks.NewGranted(time.Now), one.car.clock)
		leave, err := one.car.keepTime(t.Context(), one.car.settings.Etcd.storage(etcd.Endpoints()), agree)
		if err != nil {
			t.Fatal(err)
		}
		one.leave = sync.OnceFunc(leave)
		t.Cleanup(one.leave)
		return one
	}
}

// decides asks about a right that ends, a right that does not, and a deny that has ended.
func (o *timed) decides(t *testing.T) (ends, stays, ended authorizer.Decision) {
	t.Helper()
	ask := func(user, verb, resource string) authorizer.Decision {
		answer, err := o.world.decider.Access(t.Context(), "c", asked(user, verb, resource, "team", "a"))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Decision
	}
	return ask("anna", "get", "pods"), ask("carl", "get", "pods"), ask("rob", "update", "secrets")
}

// await waits until the clock is judged so, and looks at what is decided then.
func (o *timed) await(t *testing.T, what, doubt string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if why := o.car.clock.Doubt(); (why == "") == (doubt == "") && strings.Contains(why, doubt) {
			break
		} else if time.Since(begin) > 2*time.Minute {
			t.Fatalf("%s: %q, want %q", what, why, doubt)
		}
	}
	ends, stays, ended := o.decides(t)
	if stays != authorizer.DecisionAllow {
		t.Errorf("%s: a right without a time is decided as %v", what, stays)
	}
	if (ends == authorizer.DecisionAllow) != (doubt == "") || (ended == authorizer.DecisionDeny) != (doubt != "") {
		t.Errorf("%s: a right that ends is decided as %v, a deny that has ended as %v", what, ends, ended)
	}
}

const untimed = `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: looks, namespace: team}
rules: [{verbs: [get], resourceKinds: [pods]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: looks, namespace: team}
roleRef: {namespace: team, name: looks}
userNames: [carl]
`

// TM-4, TM-16: beside a stock server, too, what begins or ends allows nothing, and denies, while the clock is off that
// of another sidecar, or behind an instant that was seen before, across restarts; --agree ends that.
func TestClocksBeside(t *testing.T) {
	start := beside(t)
	now := time.Now().Truncate(time.Second)
	text := bounded(bounded(policy, "small", now.Add(-5*time.Hour), now.Add(5*time.Hour)), "careful", now.Add(-9*time.Hour), now.Add(-8*time.Hour)) + untimed
	one := start(text, time.Hour, false)
	one.await(t, "alone", "")
	two := start(text, time.Hour+time.Second, false)
	two.await(t, "a second apart", "")
	two.set(time.Hour + 10*time.Second)
	if ends, _, ended := two.decides(t); ends == authorizer.DecisionAllow || ended != authorizer.DecisionDeny {
		t.Errorf("as soon as the clock jumps, a right that ends is decided as %v, a deny that has ended as %v", ends, ended)
	}
	two.await(t, "a clock that is ahead", "off that of the replica on")
	one.await(t, "another one's clock that is ahead", "off that of the replica on")
	two.leave()
	one.await(t, "it has left", "")
	one.leave()

	back := start(text, 0, false)
	back.await(t, "set back, with a restart", "behind an instant that was seen before")
	back.leave()
	start(text, 0, true).await(t, "--agree", "")
}

// TM-4: a skew that cannot be is an error of init, and settings of an earlier release have the default.
func TestMaxClockSkew(t *testing.T) {
	for skew, ok := range map[time.Duration]bool{0: true, 100 * time.Millisecond: true, 30 * time.Second: true, time.Millisecond: false, time.Minute: false, -time.Second: false} {
		s := &settings{Server: "https://127.0.0.1:6443", Listen: "127.0.0.1:6453", Namespace: "a", MasterNamespace: "master", AuditLevel: "None"}
		s.MaxClockSkew.Duration = skew
		if err := s.validate(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "--max-clock-skew=") {
			t.Errorf("%s: %v", skew, err)
		}
	}
}
