package timekeeper

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"proviso.dev/proviso/test/etcdtest"
)

// patient bounds what must happen; no test waits for it to pass.
const patient = 2 * time.Minute

// set are the hands of a clock that is some time ahead, and can be set.
type set struct {
	Hands
	mu    sync.Mutex
	ahead time.Duration
}

func newSet(ahead time.Duration) *set { return &set{Hands: Machine(), ahead: ahead} }

func (s *set) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Hands.Now().Round(0).Add(s.ahead)
}

func (s *set) to(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// follow starts a server at the board; what it returns ends it.
func follow(t *testing.T, k *Keeper, b Board) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	b.every = 500 * time.Millisecond
	go func() {
		defer close(over)
		k.Follow(ctx, b)
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-over
	})
	t.Cleanup(leave)
	return leave
}

func await(t *testing.T, what string, k *Keeper, doubt string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		why := k.Doubt()
		_, known := k.Now()
		if known == (why == "") && (doubt == "") == known && strings.Contains(why, doubt) {
			return
		}
		if time.Since(begin) > patient {
			t.Fatalf("%s: known %v, %q, want %q", what, known, why, doubt)
		}
	}
}

// TM-4: a clock that was set back is not trusted, across restarts and on other servers, until it has caught up; --agree
// ends that. One that was not compared yet is not trusted either.
func TestClockSetBack(t *testing.T) {
	client := etcdtest.Client(t)
	at := func(id string) Board { return Board{Client: client, Prefix: "/registry", ID: id, Host: "host-" + id} }
	hands := newSet(time.Hour)
	k := New(hands, DefaultSkew)
	await(t, "before it is compared", k, "has not been compared")
	leave := follow(t, k, at("a"))
	await(t, "alone", k, "")
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if kept, err := client.Get(t.Context(), "/registry/proviso.dev/time/largest"); err != nil || time.Since(begin) > patient {
			t.Fatalf("the time is not kept: %v", err)
		} else if kept.Count > 0 {
			break
		}
	}
	hands.to(time.Hour - 20*time.Second)
	await(t, "a little behind", k, "")
	leave()

	back := newSet(0)
	again := New(back, DefaultSkew)
	leave = follow(t, again, at("a"))
	await(t, "set back, with a restart", again, "behind an instant that was seen before")
	back.to(time.Hour)
	await(t, "it has caught up", again, "")
	back.to(0)
	await(t, "set back", again, "behind an instant")
	if err := again.Agree(t.Context(), at("a")); err != nil {
		t.Fatal(err)
	}
	await(t, "agreed on", again, "")
	leave()
	if left, err := client.Get(t.Context(), "/registry/proviso.dev/time/asks/", clientv3.WithPrefix()); err != nil || left.Count != 0 {
		t.Errorf("a server that has left is still asked: %v, %v", left, err)
	}
}

// Two servers whose clocks are both behind ask each other at their pace, not at once whenever the other one has asked.
func TestTwoClocksBehind(t *testing.T) {
	client := etcdtest.Client(t)
	at := func(id string) Board { return Board{Client: client, Prefix: "/registry", ID: id, Host: "host-" + id} }
	if err := New(newSet(time.Hour), DefaultSkew).Agree(t.Context(), at("c")); err != nil {
		t.Fatal(err)
	}
	a, b := New(newSet(0), DefaultSkew), New(newSet(0), DefaultSkew)
	follow(t, a, at("a"))
	follow(t, b, at("b"))
	await(t, "one", a, "behind an instant")
	await(t, "the other", b, "behind an instant")
	asked := func() int64 {
		kept, err := client.Get(t.Context(), "/registry/proviso.dev/time/asks/a")
		if err != nil || kept.Count != 1 {
			t.Fatalf("%v %v", kept, err)
		}
		return kept.Kvs[0].Version
	}
	begin, first := time.Now(), asked()
	for asked() < first+8 {
		if time.Since(begin) > patient {
			t.Fatal("it asks no more")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(begin); took < 6*500*time.Millisecond {
		t.Errorf("it asked 8 times in %s", took)
	}
}

// TM-4: of two servers whose clocks are apart neither is trusted, until they are in step, or one leaves. One that is
// known to be wrong is none to compare with.
func TestClocksApart(t *testing.T) {
	client := etcdtest.Client(t)
	join := func(id string, hands *set) (*Keeper, func()) {
		k := New(hands, DefaultSkew)
		return k, follow(t, k, Board{Client: client, Prefix: "registry", ID: id, Host: "host-" + id})
	}
	right, near, ahead := newSet(0), newSet(time.Second), newSet(5*time.Second)
	a, _ := join("a", right)
	await(t, "alone", a, "")
	b, _ := join("b", near)
	await(t, "a second apart", b, "")
	await(t, "a second apart", a, "")
	c, leave := join("c", ahead)
	await(t, "one that is ahead", c, "off that of the replica on host-a")
	await(t, "the others cannot know who is right", a, "off that of the replica on host-c")
	await(t, "the others cannot know who is right", b, "off that of the replica on host-c")
	ahead.to(0)
	await(t, "it is set", c, "")
	await(t, "it was set", a, "")
	ahead.to(-4 * time.Second)
	await(t, "it jumps back", c, "off that of")
	await(t, "it has jumped back", b, "host-c")
	leave()
	await(t, "it has left", b, "")
	await(t, "it has left", a, "")

	wrong := newSet(-time.Hour)
	d, _ := join("d", wrong)
	await(t, "one that is behind", d, "behind an instant")
	await(t, "it knows that it is wrong", a, "")
	await(t, "it knows that it is wrong", b, "")
}

// TM-4: for whatever clocks and delays, a clock that is in step is trusted, one that is apart by more than the skew and
// what cannot be known is not, and both see that alike.
func TestMeasuredClocks(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	second := func(n int64) time.Duration { return time.Duration(r.Int64N(n * int64(time.Second))) }
	base := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	for range 20_000 {
		apart := second(20) - 10*time.Second // how far the other clock is ahead of this one
		began := second(1000)                // how long this one runs when it asks
		there, back := second(3), second(3)
		at := base.Add(began + there + apart)
		o := measured("other", at, began, began+there+back)
		k := New(fixed{base, 0}, DefaultSkew)
		k.known.Store(&evidence{compared: true, others: []other{o}})
		for _, later := range []time.Duration{began + there + back, began + time.Hour} {
			k.hands = fixed{base.Add(later), later}
			_, known := k.Now()
			if inStep := apart.Abs() <= DefaultSkew; inStep && !known {
				t.Fatalf("seed %d: %s apart, %s there, %s back: in doubt: %s", seed, apart, there, back, k.Doubt())
			}
			if apart.Abs() > DefaultSkew+there+back && known {
				t.Fatalf("seed %d: %s apart, %s there, %s back: trusted", seed, apart, there, back)
			}
		}
	}
}

// fixed are hands that stand still.
type fixed struct {
	now     time.Time
	elapsed time.Duration
}

func (f fixed) Now() time.Time         { return f.now }
func (f fixed) Elapsed() time.Duration { return f.elapsed }

// Every request asks the clock.
func TestAskingAllocatesNothing(t *testing.T) {
	k := New(Machine(), DefaultSkew)
	k.known.Store(&evidence{compared: true, others: []other{measured("a", time.Now(), 0, 0)}})
	if n := testing.AllocsPerRun(100, func() { k.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
