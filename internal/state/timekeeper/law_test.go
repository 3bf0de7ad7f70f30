package timekeeper

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// entry is a binding, as the model knows it.
type entry struct {
	who         string
	deny        bool
	from, until time.Duration // since the epoch of the world; -1 is none
}

// told is what a replica was told about another clock: it showed at, between two readings of what cannot be set.
type told struct {
	at, asked, answered time.Duration
}

// replica is a server whose clock jumps, stands still, and is off those of others.
type replica struct {
	w     *replicas
	keep  *Keeper
	store *snapshot.Store

	ahead  time.Duration // of the true time
	stands time.Duration // the time at which it stands still; -1 if it runs

	// compared, largest and others are what the model goes by.
	compared bool
	largest  time.Duration
	others   []told
}

// replicas share a policy and the largest instant that was seen.
type replicas struct {
	r     *rand.Rand
	now   time.Duration // the true time
	kept  time.Duration // -1 if nothing is
	all   []*replica
	held  []entry
	index *ruleset.Index
}

var epoch = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

const horizon = 200 * time.Second

func (r *replica) shows() time.Duration {
	if r.stands >= 0 {
		return r.stands
	}
	return r.w.now + r.ahead
}

// Now implements Hands.
func (r *replica) Now() time.Time { return epoch.Add(r.shows()) }

// Elapsed implements Hands.
func (r *replica) Elapsed() time.Duration { return r.w.now }

// Name implements snapshot.Part.
func (r *replica) Name() string { return "law" }

// HasSynced implements snapshot.Part.
func (r *replica) HasSynced() bool { return true }

// Apply implements snapshot.Part. What is published is for the moment of then.
func (r *replica) Apply(next *snapshot.Snapshot) {
	next.Rules = r.w.index.Unknown()
	if now, known := r.keep.Now(); known {
		next.Rules = r.w.index.At(now)
	}
}

// trusts is the model of trust: some instant between question and answer explains what the other clock showed.
func (r *replica) trusts() bool {
	if !r.compared || r.largest-r.shows() > 30*time.Second {
		return false
	}
	for _, o := range r.others {
		// The other clock showed at when this one, if they are in step, showed what it shows now less what passed.
		latest, earliest := r.shows()-(r.w.now-o.answered), r.shows()-(r.w.now-o.asked)
		if o.at > latest+2*time.Second || o.at < earliest-2*time.Second {
			return false
		}
	}
	return true
}

// allows is the model of decisions.
func (r *replica) allows(who string) bool {
	trusted, second := r.trusts(), r.shows().Truncate(time.Second)
	if r.shows() < second {
		second -= time.Second // before the epoch
	}
	allowed, denied := false, false
	for _, e := range r.w.held {
		bounded := e.from >= 0 || e.until >= 0
		counts := (e.from < 0 || e.from <= second) && (e.until < 0 || second < e.until)
		switch {
		case e.who != who:
		case e.deny:
			denied = denied || counts && trusted || bounded && !trusted || !bounded
		default:
			allowed = allowed || counts && trusted || !bounded
		}
	}
	return allowed && !denied
}

func (w *replicas) time(most time.Duration) time.Duration {
	return time.Duration(w.r.Int64N(int64(most)))
}

// draw makes another policy.
func (w *replicas) draw() {
	w.held = nil
	bindings := map[string]policyv1alpha1.PolicyRoleBinding{}
	instant := func(d time.Duration) *metav1.Time {
		if d < 0 {
			return nil
		}
		return &metav1.Time{Time: epoch.Add(d)}
	}
	for i := range 1 + w.r.IntN(5) {
		e := entry{who: []string{"u", "v"}[w.r.IntN(2)], deny: w.r.IntN(3) == 0, from: -1, until: -1}
		if w.r.IntN(4) > 0 {
			e.from = w.time(horizon).Truncate(time.Second)
		}
		if w.r.IntN(4) > 0 {
			e.until = max(e.from, 0) + time.Second + w.time(horizon/2).Truncate(time.Second)
		}
		role := "allow"
		if e.deny {
			role = "deny"
		}
		w.held = append(w.held, e)
		bindings[fmt.Sprint(i)] = policyv1alpha1.PolicyRoleBinding{RoleName: role, UserNames: []string{e.who}, NotBefore: instant(e.from), NotAfter: instant(e.until)}
	}
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}
	denies := rule
	denies.Deny = true
	w.index = ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "pods", Kind: "Pod", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
			"allow": {Rules: []policyv1alpha1.PolicyRule{rule}}, "deny": {Rules: []policyv1alpha1.PolicyRule{denies}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "master"}, RoleBindings: bindings}}})
	for _, r := range w.all {
		r.store.Publish()
	}
}

// compare lets a replica ask all others, as they do through etcd, with delays.
func (w *replicas) compare(r *replica) {
	e := evidence{compared: true}
	r.compared, r.others = true, nil
	for _, o := range w.all {
		if o == r {
			continue
		}
		asked := w.now
		w.now += w.time(3 * time.Second)
		at, wrong := o.shows(), o.keep.isBehind()
		w.now += w.time(3 * time.Second)
		if wrong {
			continue
		}
		r.others = append(r.others, told{at, asked, w.now})
		e.others = append(e.others, measured("other", epoch.Add(at), asked, w.now))
	}
	r.largest = max(w.kept, 0) - 24*time.Hour
	if w.kept >= 0 {
		r.largest = w.kept
		e.largest = epoch.Add(w.kept)
	}
	r.keep.known.Store(&e)
	if _, trusted := r.keep.Now(); !trusted || r.shows() <= w.kept {
		return
	}
	w.kept = r.shows()
	for _, o := range w.all {
		if err := (&comparing{Keeper: o.keep}).seen([]byte(written(epoch.Add(w.kept)))); err != nil {
			panic(err)
		}
		if o.compared {
			o.largest = w.kept
		}
	}
}

// step is something that happens to the replicas.
func (w *replicas) step() {
	r := w.all[w.r.IntN(len(w.all))]
	switch w.r.IntN(10) {
	case 0:
		w.draw()
	case 1:
		r.ahead = w.time(2*time.Minute) - time.Minute
	case 2:
		r.ahead = w.time(2*time.Second) - time.Second
	case 3:
		if r.stands < 0 {
			r.stands = max(r.shows(), 0)
		} else {
			r.stands = -1
		}
	case 4, 5, 6:
		w.compare(r)
	default:
		w.now += w.time(40 * time.Second)
	}
}

// TM-17: over random schedules of bindings that begin and end, with clocks that jump, stand still and differ between
// replicas, no decision differs from that of a model which looks at each binding. In particular nothing passes after an
// edge that the clock of the server has passed.
func TestSchedules(t *testing.T) {
	doubted, passed := 0, 0
	law.Rounds(t, 1500, func(seed int64) (cases int) {
		w := &replicas{r: rand.New(rand.NewPCG(uint64(seed), 17)), kept: -1}
		for range 1 + w.r.IntN(3) {
			r := &replica{w: w, stands: -1}
			r.keep = New(r, DefaultSkew)
			r.store = snapshot.NewStoreWith(r.keep)
			if err := r.store.Add(r); err != nil {
				t.Fatal(err)
			}
			w.all = append(w.all, r)
		}
		w.draw()
		for range 16 {
			w.step()
			for i, r := range w.all {
				snap, at := r.store.Now()
				if trusted := r.trusts(); at.IsZero() == trusted {
					t.Fatalf("seed %d: replica %d at %s, which shows %s: trusted %v: %s", seed, i, w.now, r.shows(), !at.IsZero(), r.keep.Doubt())
				} else if !trusted {
					doubted++
				}
				for _, who := range []string{"u", "v"} {
					got := snap.Rules.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "get", Resource: "pods", APIVersion: "v1", ResourceRequest: true}).Certainty == ruleset.Always
					if want := r.allows(who); got != want {
						t.Fatalf("seed %d: replica %d shows %s, trusted %v: %s allowed %v, want %v\n%+v", seed, i, r.shows(), r.trusts(), who, got, want, w.held)
					} else if got {
						passed++
					}
					cases++
				}
			}
		}
		return cases
	})
	if doubted < 1000 || passed < 1000 {
		law.TooFew(t, "%d in doubt, %d allowed", doubted, passed)
	}
}
