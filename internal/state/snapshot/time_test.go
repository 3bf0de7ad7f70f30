package snapshot

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// hands is a clock whose hands are moved.
type hands struct {
	mu   sync.Mutex
	now  time.Time
	lost bool
}

func (h *hands) Now() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, !h.lost
}

func (h *hands) move(now time.Time, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now, h.lost = now, lost
}

// shift is a part with a role that edgar has from 10 to 20.
type shift struct{ index *ruleset.Index }

func newShift() *shift {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	return &shift{ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "pods", Kind: "Pod", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
			"r": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"b": {RoleName: "r", UserNames: []string{"edgar"}, NotBefore: at(10), NotAfter: at(20)}}}}})}
}

func (*shift) Name() string    { return "shift" }
func (*shift) HasSynced() bool { return true }
func (s *shift) Apply(next *Snapshot) {
	if now, known := next.time.Now(); known {
		s.index = s.index.At(now)
	} else {
		s.index = s.index.Unknown()
	}
	next.Rules = s.index
}

func may(s *Snapshot) bool {
	return s.Rules.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "get", Resource: "pods", APIVersion: "v1", ResourceRequest: true}).Certainty == ruleset.Always
}

// TM-3, TM-4: a snapshot is exact at every instant, also before the store has published for it; a time that cannot be
// trusted allows nothing that has one.
func TestSnapshotAtAnInstant(t *testing.T) {
	clock := &hands{now: time.Unix(5, 0)}
	store := NewStoreWith(clock)
	if err := store.Add(newShift()); err != nil {
		t.Fatal(err)
	}
	store.Publish()
	for _, tc := range []struct {
		at   time.Time
		lost bool
		want bool
	}{
		{time.Unix(9, 999_999_999), false, false}, {time.Unix(10, 0), false, true}, {time.Unix(19, 999_999_999), false, true}, {time.Unix(20, 0), false, false},
		{time.Unix(15, 0), false, true}, {time.Unix(15, 0), true, false}, {time.Unix(3, 0), false, false}, // the clock is set back
	} {
		clock.move(tc.at, tc.lost)
		snap, at := store.Now()
		if may(snap) != tc.want || may(store.Current()) != tc.want || at.IsZero() != tc.lost {
			t.Errorf("at %v, lost %v: %v, %v", tc.at, tc.lost, may(snap), at)
		}
		if again, _ := store.Now(); !tc.lost && again != snap {
			t.Errorf("at %v: another snapshot for the same instant", tc.at)
		}
	}
}

// TM-5: the store publishes at an edge, and when the clock is set past one, so that who waits for another policy looks.
func TestPublishesAtEdges(t *testing.T) {
	clock := &hands{now: time.Unix(5, 0)}
	store := NewStoreWith(clock)
	if err := store.Add(newShift()); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	next := store.Next()
	go store.Run(stop)
	<-next
	for _, step := range []struct {
		at   int64
		lost bool
		want bool
	}{{10, false, true}, {15, true, false}, {16, false, true}, {30, false, false}, {12, false, true}} {
		for next := store.Next(); ; next = store.Next() {
			clock.move(time.Unix(step.at, 0), step.lost)
			if published := store.current.Load(); may(published) == step.want {
				break
			}
			select {
			case <-next:
			case <-time.After(30 * time.Second):
				t.Fatalf("nothing was published at %d", step.at)
			}
		}
	}
}

// none is a part without bindings that begin or end.
type none struct{ *shift }

func (none) Apply(next *Snapshot) {
	next.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master"})
}

// TM-17: where no binding has a time, a request gets its policy and its instant without an allocation, and with none
// more where some have.
func TestTimeAllocatesNothing(t *testing.T) {
	for name, part := range map[string]Part{"no binding with a time": none{newShift()}, "some": newShift()} {
		store := NewStoreWith(&hands{now: time.Unix(15, 0)})
		if err := store.Add(part); err != nil {
			t.Fatal(err)
		}
		store.Publish()
		if n := testing.AllocsPerRun(100, func() { _, _ = store.Now() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkNow is what the time costs each request: at is with bindings that have one, and without.
func BenchmarkNow(b *testing.B) {
	for name, part := range map[string]Part{"without": none{newShift()}, "with": newShift()} {
		b.Run(name, func(b *testing.B) {
			store := NewStore()
			if err := store.Add(part); err != nil {
				b.Fatal(err)
			}
			store.Publish()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Now()
			}
		})
	}
}
