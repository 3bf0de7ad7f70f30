package readfilter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// oracle knows what callers may see: the same as ever, unless they are revoked. It writes down who was asked about.
type oracle struct {
	mu sync.Mutex
	// open are the users about whom the quick way settles nothing.
	open    map[string]bool
	revoked map[string]bool
	// computing is called before something is computed.
	computing    func(user string)
	quick, whole []string
}

var errRevoked = errors.New("revoked")

func seen() *requestctx.Narrowing {
	return &requestctx.Narrowing{Box: selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a"))}
}

func (o *oracle) NarrowAgain(_ context.Context, _ *snapshot.Snapshot, attrs authorizer.Attributes, before *requestctx.Narrowing) (*requestctx.Narrowing, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := attrs.GetUser().GetName()
	o.quick = append(o.quick, name)
	if o.revoked[name] {
		return nil, true, errRevoked
	}
	return before, !o.open[name], nil
}

func (o *oracle) NarrowFor(_ context.Context, _ *snapshot.Snapshot, attrs authorizer.Attributes) (*requestctx.Narrowing, error) {
	name := attrs.GetUser().GetName()
	if o.computing != nil {
		o.computing(name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.whole = append(o.whole, name)
	return seen(), nil
}

// rules is a part of the snapshot that changes with every publication.
type rules struct{}

func (rules) Name() string    { return "rules" }
func (rules) HasSynced() bool { return true }
func (rules) Apply(next *snapshot.Snapshot) {
	next.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master"})
}

// crowd is watches of users.
type crowd struct {
	t      *testing.T
	oracle *oracle
	stores *Stores
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	store := snapshot.NewStore()
	if err := store.Add(rules{}); err != nil {
		t.Fatal(err)
	}
	store.Publish()
	c := &crowd{t: t, oracle: &oracle{revoked: map[string]bool{}, open: map[string]bool{}}, stores: &Stores{cfg: Config{Store: store}}}
	c.stores.rechecks = newRechecks(c.oracle)
	c.stores.rechecks.advance(store.Current(), time.Now(), time.Now())
	return c
}

// watch opens one; the namespace tells questions of a user apart.
func (c *crowd) watch(who user.DefaultInfo, namespace string) (*watch.FakeWatcher, watch.Interface) {
	c.t.Helper()
	ctx := requestctx.With(c.t.Context(), c.stores.cfg.Store.Current())
	holder := requestctx.From(ctx)
	holder.Put(requestctx.Request, authorizer.AttributesRecord{User: &who, Verb: "watch", APIVersion: "v1", Resource: "configmaps", Namespace: namespace, ResourceRequest: true},
		requestctx.Narrowed(seen()))
	inner := watch.NewFake()
	w := c.stores.follow(inner, holder, nil)
	c.t.Cleanup(w.Stop)
	return inner, w
}

// change is another policy.
func (c *crowd) change() {
	c.stores.cfg.Store.Publish()
	c.stores.rechecks.advance(c.stores.cfg.Store.Current(), time.Now(), time.Now())
}

// drain asks all that is to be asked.
func (c *crowd) drain() {
	for c.stores.rechecks.step(c.t.Context(), quick) || c.stores.rechecks.step(c.t.Context(), full) {
		continue
	}
}

func ended(t *testing.T, w watch.Interface) {
	t.Helper()
	if e := <-w.ResultChan(); e.Type != watch.Error || e.Object.(*metav1.Status).Code != http.StatusGone {
		t.Errorf("%v, want 410", e)
	}
}

func delivered(t *testing.T, inner *watch.FakeWatcher, w watch.Interface) {
	t.Helper()
	go inner.Add(&corev1.ConfigMap{})
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Errorf("%v, want an event", e)
	}
}

// NI-6, RD-7: a user with 200 watches does not delay the single watch of another one, neither where it is asked whether
// the right is gone, nor where selectors have to be computed. The user that came first has no advantage.
func TestUsersTakeTurns(t *testing.T) {
	for _, first := range []string{"ann", "eve"} {
		c := newCrowd(t)
		c.oracle.open["ann"], c.oracle.open["eve"] = true, true
		if first == "ann" {
			c.watch(user.DefaultInfo{Name: "ann"}, "a")
		}
		for i := range 200 {
			c.watch(user.DefaultInfo{Name: "eve"}, fmt.Sprint("e", i))
		}
		if first == "eve" {
			c.watch(user.DefaultInfo{Name: "ann"}, "a")
		}
		c.change()
		for _, queue := range []int{quick, full} {
			c.stores.rechecks.step(t.Context(), queue)
			c.stores.rechecks.step(t.Context(), queue)
			if queue == quick { // all of them come to the second queue, ann's in the midst of eve's
				for c.stores.rechecks.step(t.Context(), quick) {
					continue
				}
			}
		}
		for what, asked := range map[string][]string{"whether it is gone": c.oracle.quick[:2], "what it is narrowed to": c.oracle.whole} {
			if len(asked) != 2 || asked[0] == asked[1] {
				t.Errorf("%s: the first questions are about %v", what, asked)
			}
		}
		if len(c.oracle.quick) != 201 {
			t.Errorf("%d questions", len(c.oracle.quick))
		}
	}
}

// NI-6: a user with very many equal watches gives others a turn in between, and all of them are checked.
func TestEqualWatchesTakeTurns(t *testing.T) {
	c := newCrowd(t)
	for range 2*maxTogether + 1 {
		c.watch(user.DefaultInfo{Name: "eve"}, "n")
	}
	c.watch(user.DefaultInfo{Name: "ann"}, "n")
	c.change()
	q := c.stores.rechecks.all[0]
	since := q.since.Add(time.Minute)
	q.since = since
	c.stores.rechecks.step(t.Context(), quick)
	c.stores.rechecks.step(t.Context(), quick)
	if fmt.Sprint(c.oracle.quick) != "[eve ann]" || q.since != since {
		t.Errorf("asked about %v, due since %v", c.oracle.quick, q.since)
	}
	c.drain()
	if fmt.Sprint(c.oracle.quick) != "[eve ann eve eve]" || q.isDue(c.stores.cfg.Store.Current()) || !q.since.IsZero() {
		t.Errorf("asked about %v, due since %v", c.oracle.quick, q.since)
	}
}

// NI-6: equal watches are one question. Whatever a decision can look at makes it another one.
func TestEqualWatchesAreOneQuestion(t *testing.T) {
	c := newCrowd(t)
	for range 50 {
		c.watch(user.DefaultInfo{Name: "eve", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"1"}, "y": {"2"}}}, "n")
	}
	c.change()
	c.drain()
	if len(c.oracle.quick) != 1 || len(c.oracle.whole) != 0 {
		t.Errorf("asked %v, computed %v", c.oracle.quick, c.oracle.whole)
	}
	for _, who := range []user.DefaultInfo{{Name: "eve"}, {Name: "eve", UID: "u"}, {Name: "eve", Groups: []string{"ab"}}, {Name: "eve", Groups: []string{"a", "b"}},
		{Name: "eve", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"1"}, "y": {"3"}}}} {
		c.watch(who, "n")
	}
	c.watch(user.DefaultInfo{Name: "eve"}, "other")
	if n := len(c.stores.rechecks.questions); n != 7 {
		t.Errorf("%d questions, want 7", n)
	}
	// A policy that changes nothing of the rules costs nothing.
	asked := len(c.oracle.quick)
	c.stores.rechecks.advance(c.stores.cfg.Store.Current(), time.Now(), time.Now())
	c.drain()
	if len(c.oracle.quick) != asked {
		t.Errorf("%d questions without a change", len(c.oracle.quick)-asked)
	}
}

// RD-7: after a policy change nothing is sent before the watch was checked by it, and nothing at all if the right is
// gone. Without a change events are sent at once.
func TestEventsWaitForTheCheck(t *testing.T) {
	c := newCrowd(t)
	keptEvents, kept := c.watch(user.DefaultInfo{Name: "ann"}, "n")
	goneEvents, gone := c.watch(user.DefaultInfo{Name: "eve"}, "n")
	delivered(t, keptEvents, kept)
	c.oracle.revoked["eve"] = true
	c.stores.cfg.Store.Publish() // not even known to those who check
	keptEvents.Add(&corev1.ConfigMap{})
	goneEvents.Add(&corev1.ConfigMap{})
	select {
	case e := <-kept.ResultChan():
		t.Fatalf("sent before the check: %v", e)
	case e := <-gone.ResultChan():
		t.Fatalf("sent before the check: %v", e)
	case <-time.After(50 * time.Millisecond):
	}
	c.stores.rechecks.advance(c.stores.cfg.Store.Current(), time.Now(), time.Now())
	c.drain()
	if e := <-kept.ResultChan(); e.Type != watch.Added {
		t.Errorf("%v, want the event that was held back", e)
	}
	ended(t, gone)
	delivered(t, keptEvents, kept)
	if len(c.oracle.whole) != 0 {
		t.Errorf("computed %v: that a right is gone needs nothing computed", c.oracle.whole)
	}
}

// RD-7: a watch that is opened with older policy than that of now is checked too.
func TestAWatchOfOlderPolicyIsChecked(t *testing.T) {
	c := newCrowd(t)
	older := c.stores.cfg.Store.Current()
	c.change()
	c.oracle.revoked["eve"] = true
	ctx := requestctx.With(t.Context(), older)
	requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "eve"}, Verb: "watch", Resource: "configmaps", ResourceRequest: true}, requestctx.Narrowed(seen()))
	w := c.stores.follow(watch.NewFake(), requestctx.From(ctx), nil)
	defer w.Stop()
	c.drain()
	ended(t, w)
}

// RD-7: what was not checked in time ends, and nothing else does.
func TestWhatIsLateEnds(t *testing.T) {
	c := newCrowd(t)
	c.oracle.open["eve"] = true
	_, late := c.watch(user.DefaultInfo{Name: "eve"}, "n")
	events, checked := c.watch(user.DefaultInfo{Name: "ann"}, "n")
	c.change()
	for c.stores.rechecks.step(t.Context(), quick) {
		continue
	}
	now := time.Now()
	if !c.stores.rechecks.expire(now) {
		t.Error("nothing is to be checked")
	}
	if c.stores.rechecks.expire(now.Add(lateAfter)) {
		t.Error("something is still to be checked")
	}
	ended(t, late)
	delivered(t, events, checked)
}

// RD-7, NI-6: while something is computed for one user, the end of another one's right is seen. Afterwards nothing is
// remembered of watches that were closed.
func TestARevocationDoesNotWaitForOthers(t *testing.T) {
	c := newCrowd(t)
	c.oracle.open["ann"], c.oracle.open["eve"] = true, true
	ctx, stop := context.WithCancel(t.Context())
	computing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.oracle.computing = func(string) {
		once.Do(func() { close(computing) })
		<-release
	}
	for i := range 200 {
		c.watch(user.DefaultInfo{Name: "eve"}, fmt.Sprint("e", i))
	}
	_, gone := c.watch(user.DefaultInfo{Name: "ann"}, "n")
	var running sync.WaitGroup
	running.Go(func() { c.stores.Run(ctx) })
	c.stores.cfg.Store.Publish()
	<-computing
	c.oracle.mu.Lock()
	c.oracle.revoked["ann"] = true
	c.oracle.mu.Unlock()
	c.stores.cfg.Store.Publish()
	ended(t, gone)
	close(release)
	stop()
	running.Wait()
	r := c.stores.rechecks
	r.mu.Lock()
	var open []*watching
	for _, q := range r.questions {
		open = append(open, q.watches...)
	}
	r.mu.Unlock()
	for _, w := range open {
		w.Stop()
	}
	if len(r.questions)+len(r.users) != 0 {
		t.Errorf("%d questions of %d users are remembered", len(r.questions), len(r.users))
	}
}
