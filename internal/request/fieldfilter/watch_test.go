package fieldfilter

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// right is to see the data of secrets in a namespace.
type right struct{ who, namespace string }

// audience is users with open watches of secrets, and a policy that changes.
type audience struct {
	*world
	t     *testing.T
	store *snapshot.Store
	began time.Time
	// fields is the table of the next policy, and granted are names of grants in it: to oscar, in the namespace a, for
	// an hour.
	fields  *fieldperm.Table
	granted []string

	mu sync.Mutex
	// rights are those of each generation of the policy.
	rights map[uint64]map[right]bool
	asked  []right
	// asking is called before an answer.
	asking func(right)
}

func (a *audience) Name() string    { return "audience" }
func (a *audience) HasSynced() bool { return true }
func (a *audience) Apply(next *snapshot.Snapshot) {
	next.Rules, next.Served, next.Fields = ruleset.Build(ruleset.Input{MasterNamespace: "master"}), a.snap.Served, a.fields
	in := access.Input{MasterNamespace: "master", Kinds: next.Served.Kinds(), Namespaces: a,
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"reveal:example.com/data"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}}}
	for _, name := range a.granted {
		ref := accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"}
		in.Rules = append(in.Rules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: accessv1alpha1.AccessRuleSpec{
			Subjects: accessv1alpha1.Subjects{UserNames: []string{"oscar"}}, RoleRef: ref, Namespaces: []string{"a"}, MaxDurationSeconds: 3600, SpecialVerbs: true}})
		from, until := metav1.NewTime(a.began), metav1.NewTime(a.began.Add(time.Hour))
		one := &accessv1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID(name), Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "a"}},
			Spec: accessv1alpha1.AccessRequestSpec{RuleRef: accessv1alpha1.AccessRuleRef{Name: name, UID: types.UID(name)}},
			Status: accessv1alpha1.AccessRequestStatus{From: &from, Until: &until, Granted: &accessv1alpha1.AccessGrant{RoleRef: ref},
				Conditions: []metav1.Condition{{Type: accessv1alpha1.ConditionApproved, Status: metav1.ConditionTrue}}}}
		one.Spec.Requester.Username = "oscar"
		in.Requests = append(in.Requests, one)
	}
	next.Access = access.Build(in).At(time.Now())
}

// Namespace implements access.Namespaces.
func (a *audience) Namespace(name string) (metav1.Object, bool) {
	return &metav1.ObjectMeta{Name: name, UID: types.UID(name)}, true
}

// decide answers by the policy of the request.
func (a *audience) decide(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := right{attrs.GetUser().GetName(), attrs.GetNamespace()}
	a.mu.Lock()
	a.asked = append(a.asked, asked)
	asking := a.asking
	has := a.rights[requestctx.From(ctx).Snapshot.Generation][asked]
	a.mu.Unlock()
	if asking != nil {
		asking(asked)
	}
	if has {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// newAudience begins with a policy, and ends with all that it has begun.
func newAudience(t *testing.T, rights ...right) *audience {
	t.Helper()
	a := &audience{world: newWorld(t, true), t: t, began: time.Now(), rights: map[uint64]map[right]bool{}, store: snapshot.NewStore()}
	a.fields = a.snap.Fields
	cfg := a.filters.cfg
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: authorizer.AuthorizerFunc(a.decide)}, authorize.Link{Name: links.Access, Authorizer: authorize.NewAccess(a.store).ServedBy(cfg.Served)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store = a.store
	cfg.Gate = authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: cfg.Served})
	schemes := a.filters.schemes
	a.filters = New(cfg)
	a.filters.schemes = schemes
	if err := a.store.Add(a); err != nil {
		t.Fatal(err)
	}
	a.change(rights...)
	return a
}

// change publishes another policy.
func (a *audience) change(rights ...right) {
	has := map[right]bool{}
	for _, one := range rights {
		has[one] = true
	}
	a.mu.Lock()
	a.rights[a.store.Current().Generation+1], a.asked = has, nil
	a.mu.Unlock()
	a.store.Publish()
}

// waitFor is called before each answer from now on.
func (a *audience) waitFor(asking func(right)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = asking
}

func (a *audience) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// check checks the watches until the test ends. It waits until the next change will be checked without delay.
func (a *audience) check() {
	ctx, stop := context.WithCancel(a.t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.filters.Run(ctx) })
	a.t.Cleanup(func() { stop(); running.Wait() })
	time.Sleep(time.Second)
}

// stream is a storage with one watch.
type stream struct {
	storage.Interface
	events *watch.FakeWatcher
	ctx    context.Context
}

func (s *stream) Watch(ctx context.Context, _ string, _ storage.ListOptions) (watch.Interface, error) {
	s.ctx = ctx
	return s.events, nil
}

// viewer is an open watch and what it gets its events from.
type viewer struct {
	*stream
	watch watch.Interface
	t     *testing.T
}

// watch opens a watch in all namespaces; the label tells those of a user apart.
func (a *audience) watch(who, label string, groups ...string) *viewer {
	a.t.Helper()
	selected, err := labels.ParseToRequirements(label)
	if err != nil {
		a.t.Fatal(err)
	}
	policy, now := a.store.Now()
	ctx := requestctx.WithNotes(requestctx.At(audit.WithAuditContext(a.t.Context()), policy, now))
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		a.t.Fatal(err)
	}
	requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who, Groups: groups}, Verb: "watch", APIVersion: "v1", Resource: "secrets", ResourceRequest: true,
		LabelSelectorRequirements: selected}, requestctx.Allowed())
	from := &stream{events: watch.NewFakeWithChanSize(2*maxPlaces, false)}
	w, err := (&store{Interface: from, filters: a.filters, resource: secrets, scheme: a.filters.schemes[secrets]}).Watch(ctx, "/secrets", storage.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(w.Stop)
	return &viewer{from, w, a.t}
}

// change is an event about a secret in a namespace.
func (v *viewer) change(namespace string) {
	v.events.Modify(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Data: map[string][]byte{"key": []byte("secret")}})
}

// next is what the watch sends: "shown", "hidden", "gone", "closed", or nothing as long as no time passes.
func (v *viewer) next() string {
	v.t.Helper()
	synctest.Wait()
	select {
	case e, open := <-v.watch.ResultChan():
		switch o := e.Object.(type) {
		case *corev1.Secret:
			if len(o.Data) > 0 {
				return "shown"
			}
			return "hidden"
		case *metav1.Status:
			if o.Code == http.StatusGone {
				return "gone"
			}
		}
		if !open {
			return "closed"
		}
		v.t.Fatalf("%v", e)
	default:
	}
	return "nothing"
}

func (v *viewer) want(what, want string) {
	v.t.Helper()
	if got := v.next(); got != want {
		v.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TM-5, NI-6: after a change of policy no event is sent before the watch was checked, and none as before if the right
// has ended. A watch whose caller sees the same goes on.
func TestEventsWaitForTheSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "a"}, right{"ann", "a"}, right{"sam", ""})
		oscar, ann, sam := a.watch("oscar", ""), a.watch("ann", ""), a.watch("sam", "")
		all := map[string]*viewer{"oscar": oscar, "ann": ann, "sam": sam}
		for name, v := range all {
			v.change("a")
			v.want(name, "shown")
		}
		oscar.change("b")
		oscar.want("another namespace", "hidden")
		a.change(right{"ann", "a"})
		for name, v := range all {
			v.change("a")
			v.want(name+", before the check", "nothing")
		}
		a.check()
		ann.want("ann, after it", "shown")
		oscar.want("oscar, after it", "gone")
		sam.want("sam, after it", "gone")
		oscar.want("what follows", "closed")
		ann.change("b")
		ann.want("another namespace", "hidden")
	})
}

// TM-5: a right that ends with time ends with the second, before anything is published.
func TestEndedRightsShowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t)
		a.granted = []string{"g0"}
		a.change()
		oscar := a.watch("oscar", "")
		a.check()
		time.Sleep(time.Until(a.began.Add(time.Hour - 1)))
		oscar.change("a")
		oscar.want("before", "shown")
		time.Sleep(time.Nanosecond)
		oscar.change("a")
		oscar.want("afterwards", "nothing")
		a.store.Publish()
		oscar.want("after the check", "gone")
	})
}

// TM-14: the audit event of each of equal watches names the grants that show it something, also those that follow.
func TestGrantsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t)
		a.granted = []string{"g0"}
		a.change()
		both := []*viewer{a.watch("oscar", ""), a.watch("oscar", "")}
		for _, v := range both {
			v.change("a")
			v.want("by the first", "shown")
		}
		a.check()
		a.granted = []string{"g1"}
		a.change()
		for _, v := range both {
			v.change("a")
			v.want("by the second", "shown")
			notes := audit.AuditContextFrom(v.ctx).GetEventAnnotations()
			if notes[accessv1alpha1.AnnotationRequest] != "a/g0" || notes[accessv1alpha1.AnnotationRequest+"-2"] != "a/g1" {
				t.Errorf("%v", notes)
			}
		}
	})
}

// TM-5: a namespace that a watch has not seen before is decided by the policy of now, not by that of the request.
func TestNamespacesThatAreSeenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "a"}, right{"oscar", "b"})
		oscar := a.watch("oscar", "")
		oscar.change("a")
		oscar.want("a", "shown")
		a.check()
		a.change(right{"oscar", "a"}, right{"oscar", "c"})
		for namespace, want := range map[string]string{"a": "shown", "b": "hidden", "c": "shown"} {
			oscar.change(namespace)
			oscar.want(namespace, want)
		}
	})
}

// TM-5: a policy that comes while an event is shown counts for it, however long that takes.
func TestAPolicyThatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "a"})
		oscar := a.watch("oscar", "")
		a.check()
		release := make(chan struct{})
		var once sync.Once
		a.waitFor(func(r right) {
			if r.namespace == "a" {
				once.Do(func() { <-release })
			}
		})
		oscar.change("a")
		synctest.Wait()
		a.change()
		time.Sleep(10 * time.Second)
		oscar.want("while it is asked", "nothing")
		close(release)
		oscar.want("afterwards", "hidden")
	})
}

// NI-6: a user with hundreds of watches delays no watch of another user, and what was not checked in time ends.
func TestOneUserDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "a"}, right{"ann", "a"}, right{"bob", "a"})
		var many []*viewer
		for i := range 300 {
			many = append(many, a.watch("oscar", fmt.Sprint("of=x", i)))
		}
		ann, bob := a.watch("ann", ""), a.watch("bob", "")
		for _, v := range append(many, ann, bob) {
			v.change("a")
			v.want("before", "shown")
		}
		a.waitFor(func(r right) {
			if r.who == "oscar" {
				time.Sleep(100 * time.Millisecond)
			}
		})
		a.check()
		a.change(right{"oscar", "a"}, right{"ann", "a"})
		for _, v := range append(many, ann, bob) {
			v.change("a")
		}
		time.Sleep(50 * time.Millisecond)
		ann.want("ann", "shown")
		bob.want("bob", "gone")
		time.Sleep(time.Second)
		shown, gone := 0, 0
		for _, v := range many {
			switch v.next() {
			case "shown":
				shown++
			case "gone":
				gone++
			}
		}
		if shown == 0 || gone == 0 || shown+gone != len(many) {
			t.Errorf("of %d watches %d go on and %d have ended", len(many), shown, gone)
		}
	})
}

// NI-6: a question about equal watches is decided once, and not at all for a policy that changes nothing.
func TestEqualWatchesAreDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "a"})
		var many []*viewer
		for range 200 {
			many = append(many, a.watch("oscar", ""))
		}
		other := a.watch("oscar", "", "group")
		for _, v := range append(many, other) {
			for _, namespace := range []string{"a", "b", "c"} {
				v.change(namespace)
				v.next()
			}
		}
		a.check()
		synctest.Wait()
		a.change(right{"oscar", "a"})
		for _, v := range append(many, other) {
			v.change("a")
			v.want("after the check", "shown")
		}
		if n := a.count(); n != 2*4 { // everywhere, and in three namespaces
			t.Errorf("%d decisions", n)
		}
	})
}

// HF-7, HF-10: watches of callers who see everything, and of resources without hidden fields, are those of the storage.
// The latter end when a field becomes hidden, also if that happens while they are opened.
func TestWatchesThatAreNotWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t)
		hides := a.fields
		master := a.watch("root", "", user.SystemPrivilegedGroup)
		if master.watch != watch.Interface(master.events) {
			t.Errorf("a master has a %T", master.watch)
		}
		a.fields = newWorld(t, false).snap.Fields
		a.change()
		a.check()
		eve := a.watch("eve", "")
		if eve.watch.ResultChan() != eve.events.ResultChan() {
			t.Error("a channel of its own")
		}
		a.change()
		if synctest.Wait(); eve.ctx.Err() != nil {
			t.Error("it ends although nothing is hidden")
		}
		older := a.store.Current()
		a.fields = hides
		a.change()
		if synctest.Wait(); eve.ctx.Err() == nil {
			t.Error("it goes on although a field is hidden")
		}
		ctx, leave := a.filters.watches.enter(requestctx.With(t.Context(), older), a.filters, fieldperm.Resource{Resource: "secrets"})
		if ctx.Err() == nil {
			t.Error("one of an older policy goes on")
		}
		leave()
		if eve.watch.Stop(); len(a.filters.watches.open) != 0 {
			t.Errorf("%d watches are remembered", len(a.filters.watches.open))
		}
	})
}
