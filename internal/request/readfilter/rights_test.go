package readfilter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-14: whether a policy change touches a caller is what a fresh comparison would say, whatever was compared before.
func TestTouchedIsNotStale(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	base := ruleset.Build(ruleset.Input{MasterNamespace: "master", ClusterRoles: []*rbacv1.ClusterRole{touchRole("read")}, RoleBindings: []*rbacv1.RoleBinding{touchBinding("a", "read", "User", "ann"), touchBinding("b", "read", "User", "bob")}})
	indexes := []*ruleset.Index{base, base.Apply(ruleset.Put(touchBinding("c", "read", "User", "ann"))), base.Apply(ruleset.Put(touchBinding("c", "read", "User", "bob"))), nil}
	served := []*snapshot.Served{{}, {}}
	hidden := &fieldperm.Table{}
	granted := []*access.Index{nil, access.Build(access.Input{MasterNamespace: "master"})}
	var all []*snapshot.Snapshot
	for _, ix := range indexes {
		for _, s := range served {
			for _, g := range granted {
				all = append(all, &snapshot.Snapshot{Rules: ix, Served: s, Access: g}, &snapshot.Snapshot{Rules: ix, Served: s, Access: g}, &snapshot.Snapshot{Rules: ix, Served: s, Access: g, Fields: hidden})
			}
		}
	}
	fresh := func(who user.Info, before, policy *snapshot.Snapshot) bool {
		return before.Served != policy.Served || before.Fields != policy.Fields || before.Rules == nil || !before.SameFor(who, policy)
	}
	for _, name := range []string{"ann", "eve"} {
		who := &user.DefaultInfo{Name: name}
		q := &question{attrs: authorizer.AttributesRecord{User: who}, caller: &alike{}}
		touched, not := 0, 0
		policy := all[0]
		for range 4000 {
			before := all[random.IntN(len(all))]
			if random.IntN(4) == 0 {
				policy = all[random.IntN(len(all)*3/4)] // one with rules
			}
			want := fresh(who, before, policy)
			if got := q.isTouched(before, policy); got != want {
				t.Fatalf("%s: %v, want %v", name, got, want)
			}
			if want {
				touched++
			} else {
				not++
			}
		}
		if touched < 100 || not < 100 {
			t.Errorf("%s: %d touched, %d not", name, touched, not)
		}
	}
}

// RD-7: what is due, and what is the same.
func TestWhatIsDue(t *testing.T) {
	older, newer := &snapshot.Snapshot{Generation: 1, Served: &snapshot.Served{}}, &snapshot.Snapshot{Generation: 2, Served: &snapshot.Served{}}
	alike, twin := &snapshot.Snapshot{Generation: 1, Served: newer.Served}, &snapshot.Snapshot{Generation: 2, Served: &snapshot.Served{}}
	hiding := &snapshot.Snapshot{Generation: 1, Served: newer.Served, Fields: &fieldperm.Table{}}
	for name, c := range map[string]struct {
		checked, policy *snapshot.Snapshot
		covers          bool
	}{"the same": {newer, newer, true}, "older": {older, newer, false}, "newer": {newer, older, true}, "older, with the same rights": {alike, newer, true}, "as new, with other rights": {twin, newer, false},
		"older, with other hidden fields": {hiding, newer, false}} {
		if covers(c.checked, c.policy) != c.covers {
			t.Errorf("%s: covers %v", name, !c.covers)
		}
		w := &watching{expired: make(chan struct{})}
		w.checked.Store(c.checked)
		q := &question{watches: []*watching{w}}
		if w.isDue(c.policy) == c.covers || q.isDue(c.policy) == c.covers {
			t.Errorf("%s: due %v", name, w.isDue(c.policy))
		}
		if w.end(); w.isDue(c.policy) || q.isDue(c.policy) {
			t.Errorf("%s: due after its end", name)
		}
	}
	a, twice, b := seen(), seen(), &requestctx.Narrowing{Box: selectors.Nothing()}
	for name, c := range map[string]struct {
		a, b *requestctx.Narrowing
		want bool
	}{"nothing": {nil, nil, true}, "something and nothing": {a, nil, false}, "nothing and something": {nil, a, false}, "itself": {a, a, true}, "as much": {a, twice, true}, "something else": {a, b, false}} {
		if same(c.a, c.b) != c.want {
			t.Errorf("%s: the same %v", name, !c.want)
		}
	}
}

// remembering is an oracle that notes what it is told of before.
type remembering struct {
	oracle
	before []*requestctx.Narrowing
	gives  *requestctx.Narrowing
	during func()
}

func (r *remembering) NarrowAgain(_ context.Context, _ *snapshot.Snapshot, _ authorizer.Attributes, before *requestctx.Narrowing) (*requestctx.Narrowing, bool, error) {
	r.before = append(r.before, before)
	if r.during != nil {
		r.during()
	}
	return r.gives, true, nil
}

// RD-7: a question is asked once for a policy, and remembers what it was told last; a policy that comes while it is
// asked makes it due again, since then.
func TestQuestionsAreAskedOnce(t *testing.T) {
	first := &snapshot.Snapshot{Generation: 1, Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master"})}
	next := func(n uint64) *snapshot.Snapshot {
		return &snapshot.Snapshot{Generation: n, Served: &snapshot.Served{}, Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master"})}
	}
	o := &remembering{gives: seen()}
	r := newRechecks(o)
	w := opened(r, first, "ann", "1")
	began := time.Unix(100, 0)
	r.advance(next(2), began, began)
	q := r.all[0]
	r.enqueue(quick, q)
	r.enqueue(quick, q)
	if n := len(q.user.waiting[quick]); n != 1 || !q.waits[quick] {
		t.Errorf("it waits %d times", n)
	}
	if q.since != began {
		t.Errorf("due since %v", q.since)
	}
	if !r.step(t.Context(), quick) || r.step(t.Context(), quick) || len(o.before) != 1 || o.before[0] != w.narrowing || !q.since.IsZero() || q.last != o.gives {
		t.Errorf("asked %d times, due since %v", len(o.before), q.since)
	}
	// What was computed last is what the next question begins with; nothing does not replace it.
	last := o.gives
	o.gives = nil
	r.advance(next(3), began, began)
	r.step(t.Context(), quick)
	if len(o.before) != 2 || o.before[1] != last || q.last != last {
		t.Errorf("asked with %v, remembers %v", o.before, q.last)
	}
	// Two that wait and are not due any more are both taken out of the queue.
	o.gives = seen()
	r = newRechecks(o)
	o.before = nil
	fourth := next(4)
	for i := range 2 {
		one := opened(r, first, "ann", fmt.Sprint(i))
		r.policy = fourth
		r.ask(r.all[i], began)
		one.release(r.policy)
	}
	taken := 0
	for r.step(t.Context(), quick) {
		taken++
	}
	if taken != 2 || len(o.before) != 0 {
		t.Errorf("%d are taken out, asked %d times", taken, len(o.before))
	}
	// A policy that comes meanwhile.
	r = newRechecks(o)
	opened(r, first, "ann", "1")
	later := began.Add(time.Minute)
	o.during = func() {
		r.mu.Lock()
		r.policy, r.began = next(9), later
		r.mu.Unlock()
	}
	r.advance(next(5), began, began)
	r.step(t.Context(), quick)
	if got := r.all[0].since; got != later {
		t.Errorf("due since %v, want %v", got, later)
	}
	// A caller whom nothing touches is released, and said to be.
	r = newRechecks(o)
	w = opened(r, first, "ann", "1")
	untouched := &snapshot.Snapshot{Generation: 2, Rules: first.Rules.Apply(ruleset.Put(touchRole("other")))}
	if !r.all[0].untouched(untouched) || w.isDue(untouched) {
		t.Error("a caller to whom the policy means the same is not released")
	}
	r.policy = untouched
	r.ask(r.all[0], began)
	w.checked.Store(first)
	if !r.step(t.Context(), quick) || r.step(t.Context(), quick) {
		t.Error("a question that nothing touches is not taken out of the queue")
	}
}

// RD-7: a watch that was allowed without a condition ends with its right, and what ends is forgotten.
func TestWatchesWithoutAConditionEnd(t *testing.T) {
	c := newCrowd(t)
	follow := func(pass requestctx.Pass) (*watch.FakeWatcher, watch.Interface) {
		ctx := requestctx.With(t.Context(), c.stores.cfg.Store.Current())
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "eve"}, Verb: "watch", Resource: "configmaps", ResourceRequest: true}, pass)
		inner := watch.NewFake()
		return inner, c.stores.follow(inner, requestctx.From(ctx), nil)
	}
	inner, w := follow(requestctx.Allowed())
	go inner.Error(&metav1.Status{Code: http.StatusInternalServerError, Message: "cannot decode"})
	if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(e.Object.(*metav1.Status).Message, "cannot decode") { //nolint:forcetypeassert // an error
		t.Errorf("a caller who may see everything is not told: %v", e)
	}
	c.oracle.revoked["eve"] = true
	c.change()
	c.drain()
	ended(t, w)
	if _, more := <-w.ResultChan(); more {
		t.Error("something follows the end")
	}
	w.Stop()
	w.Stop()
	if !inner.IsStopped() {
		t.Error("the watch of the storage goes on")
	}
	if r := c.stores.rechecks; len(r.questions)+len(r.users)+len(r.callers)+len(r.all) != 0 {
		t.Errorf("%d questions of %d users and %d callers are remembered", len(r.questions), len(r.users), len(r.callers))
	}
	for _, by := range []string{"client", "storage"} {
		inner, w := follow(requestctx.Allowed())
		if by == "client" {
			w.Stop()
		} else {
			inner.Stop()
		}
		for range w.ResultChan() {
			t.Errorf("something follows the end by the %s", by)
		}
	}
	left := newExpired()
	left.Stop()
	n := 0
	for e := range left.ResultChan() {
		if n++; e.Type != watch.Error {
			t.Errorf("%v", e)
		}
	}
	if n != 1 {
		t.Errorf("%d events of a watch that has expired", n)
	}
}

// RD-7: a watch that ends while an event waits for its client, or for a check, says so, and does not send what waits
// for the check.
func TestWatchesThatEndMeanwhile(t *testing.T) {
	for range 60 {
		c := newCrowd(t)
		inner, w := c.watch(user.DefaultInfo{Name: "eve"}, "n")
		inner.Add(&corev1.ConfigMap{}) // it is taken, and nobody reads it
		if watching, ok := w.(*watching); ok {
			watching.end()
		}
		var last watch.Event
		for e := range w.ResultChan() {
			last = e
		}
		if last.Type != watch.Error {
			t.Fatalf("the last is %v", last)
		}
	}
	for range 60 {
		c := newCrowd(t)
		inner, w := c.watch(user.DefaultInfo{Name: "eve"}, "n")
		c.oracle.revoked["eve"] = true
		c.change()
		inner.Add(&corev1.ConfigMap{})
		c.drain()
		for e := range w.ResultChan() {
			if e.Type != watch.Error {
				t.Fatalf("sent after the end of the right: %v", e)
			}
		}
	}
	for range 60 {
		c := newCrowd(t)
		inner, w := c.watch(user.DefaultInfo{Name: "eve"}, "n")
		c.change()
		inner.Add(&corev1.ConfigMap{})
		w.Stop()
		for e := range w.ResultChan() {
			t.Fatalf("sent without a check: %v", e)
		}
	}
}

// RD-10: an event that nobody was asked about ends the watch; bookmarks and errors are about no object.
func TestEventsThatNobodyWasAskedAbout(t *testing.T) {
	for kind, send := range map[watch.EventType]func(*watch.FakeWatcher){
		watch.Added: func(f *watch.FakeWatcher) { f.Add(&corev1.ConfigMap{}) }, watch.Modified: func(f *watch.FakeWatcher) { f.Modify(&corev1.ConfigMap{}) }, watch.Deleted: func(f *watch.FakeWatcher) { f.Delete(&corev1.ConfigMap{}) },
		watch.Bookmark: func(f *watch.FakeWatcher) { f.Action(watch.Bookmark, &corev1.ConfigMap{}) }, watch.Error: func(f *watch.FakeWatcher) { f.Error(&metav1.Status{Code: http.StatusTeapot}) },
	} {
		c := newCrowd(t)
		c.stores.places = newPlaces(nil)
		ctx := requestctx.With(t.Context(), c.stores.cfg.Store.Current())
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "eve"}, Verb: "watch", Resource: "configmaps", ResourceRequest: true}, requestctx.Narrowed(seen()))
		inner := watch.NewFake()
		w := c.stores.follow(inner, requestctx.From(ctx), &matcher{ctx: ctx, each: &asking{place: true}})
		if n := len(c.stores.places.watches); n != 1 {
			t.Errorf("%s: %d watches look at namespaces", kind, n)
		}
		go send(inner)
		e := <-w.ResultChan()
		if about := kind == watch.Bookmark || kind == watch.Error; about && e.Type != kind || about && kind == watch.Error && e.Object.(*metav1.Status).Code != http.StatusTeapot || !about && (e.Type != watch.Error || e.Object.(*metav1.Status).Code != http.StatusGone) { //nolint:forcetypeassert // an error
			t.Errorf("%s: %v", kind, e)
		}
		w.Stop()
		if n := len(c.stores.places.watches); n != 0 || len(c.stores.rechecks.questions) != 0 {
			t.Errorf("%s: %d watches look at namespaces after the end", kind, n)
		}
	}
}

// ticking counts how often the time is asked for.
type ticking struct{ n atomic.Int64 }

func (c *ticking) Now() (time.Time, bool) { c.n.Add(1); return time.Unix(1, 0), true }

// RD-7: the watch of the policy follows each change, rests in between, and ends with all that it has begun.
func TestRunFollowsThePolicy(t *testing.T) {
	c := newCrowd(t)
	clock := &ticking{}
	store := snapshot.NewStoreWith(clock)
	if err := store.Add(rules{}); err != nil {
		t.Fatal(err)
	}
	store.Publish()
	c.stores.cfg.Store = store
	c.stores.rechecks = newRechecks(c.oracle)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.stores.Run(ctx) }()
	const changes = 4
	for i := range changes {
		name := fmt.Sprint("u", i)
		_, w := c.watch(user.DefaultInfo{Name: name}, "n")
		c.oracle.mu.Lock()
		c.oracle.revoked[name] = true
		c.oracle.mu.Unlock()
		store.Publish()
		ended(t, w)
	}
	if n := clock.n.Load(); n > 20*changes {
		t.Errorf("the policy is looked at %d times for %d changes", n, changes)
	}
	// It does not end before what is being asked has ended.
	computing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.oracle.mu.Lock()
	c.oracle.open["last"] = true
	c.oracle.computing = func(string) { once.Do(func() { close(computing) }); <-release }
	c.oracle.mu.Unlock()
	c.watch(user.DefaultInfo{Name: "last"}, "n")
	store.Publish()
	<-computing
	stop()
	select {
	case <-done:
		t.Error("it has ended, and something is still asked")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-done
}

// RD-7: a burst of changes is waited for, and what is late meanwhile ends.
func TestWaitSettles(t *testing.T) {
	r := newRechecks(&oracle{})
	changed := make(chan struct{})
	close(changed)
	began := time.Now()
	if r.wait(t.Context(), changed); time.Since(began) < settleTime {
		t.Errorf("a burst is not waited for: %s", time.Since(began))
	}
	over, end := context.WithCancel(t.Context())
	end()
	r.wait(over, nil)
	// What is known to be due after everything has settled ends, too, if it is late.
	first := &snapshot.Snapshot{Generation: 1, Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master"})}
	w := opened(r, first, "ann", "1")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); r.wait(ctx, nil) }()
	<-time.After(3 * settleTime)
	r.mu.Lock()
	r.policy = &snapshot.Snapshot{Generation: 2, Served: &snapshot.Served{}}
	r.ask(r.all[0], time.Now())
	r.mu.Unlock()
	<-w.expired
	stop()
	<-done
	// Late is what was not checked for exactly so long, and nothing sooner.
	r = newRechecks(&oracle{})
	w = opened(r, first, "ann", "1")
	r.policy = &snapshot.Snapshot{Generation: 2, Served: &snapshot.Served{}}
	since := time.Unix(100, 0)
	r.ask(r.all[0], since)
	if !r.expire(since.Add(lateAfter-1)) || !w.isDue(r.policy) {
		t.Error("it ends before it is late")
	}
	if r.expire(since.Add(lateAfter)) || w.isDue(r.policy) || !r.all[0].since.IsZero() {
		t.Error("what is late does not end")
	}
}
