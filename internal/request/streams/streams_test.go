package streams

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// hands is a clock whose hands are moved.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) Now() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, true
}

func (h *hands) move(to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = time.Unix(to, 0)
}

// policy is a part with bindings of a role that connects to pods.
type policy struct {
	mu     sync.Mutex
	index  *ruleset.Index
	grants *access.Index
}

func (*policy) Name() string    { return "policy" }
func (*policy) HasSynced() bool { return true }
func (p *policy) Apply(next *snapshot.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next.Rules, next.Access = p.index, p.grants
}

type namespaces struct{}

func (namespaces) Namespace(name string) (metav1.Object, bool) {
	return &metav1.ObjectMeta{Name: name}, true
}

// granted is an index with a grant of the users until 100, for what they may not do otherwise.
func granted(users ...string) *access.Index {
	role := accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all"}
	in := access.Input{MasterNamespace: "master", Namespaces: namespaces{}, ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}}}
	for _, who := range users {
		in.Rules = append(in.Rules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: who}, Spec: accessv1alpha1.AccessRuleSpec{
			Subjects: accessv1alpha1.Subjects{UserNames: []string{who}}, RoleRef: role, Namespaces: []string{"a"}, MaxDurationSeconds: 1000}})
		r := &accessv1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: who}, Status: accessv1alpha1.AccessRequestStatus{From: until(1), Until: until(100),
			Granted: &accessv1alpha1.AccessGrant{RoleRef: role}, Conditions: []metav1.Condition{{Type: accessv1alpha1.ConditionApproved, Status: metav1.ConditionTrue}}}}
		r.Spec.RuleRef.Name, r.Spec.Requester.Username = who, who
		in.Requests = append(in.Requests, r)
	}
	return access.Build(in)
}

func bound(bindings map[string]policyv1alpha1.PolicyRoleBinding) *policyv1alpha1.PolicyBinding {
	return &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}, RoleBindings: bindings}
}

func until(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }

// house is a server with one handler that takes its connection over, or waits for the end.
type house struct {
	*httptest.Server
	clock  *hands
	store  *snapshot.Store
	policy *policy
}

func newHouse(t *testing.T, recheck Recheck) *house {
	t.Helper()
	h := &house{clock: &hands{now: time.Unix(5, 0)}}
	h.policy = &policy{index: ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "pods", Kind: "Pod", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
			"r": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"pods", "pods/exec", "pods/log"}}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{bound(map[string]policyv1alpha1.PolicyRoleBinding{
			"short": {RoleName: "r", UserNames: []string{"short"}, NotAfter: until(10)}, "long": {RoleName: "r", UserNames: []string{"long"}}})}})}
	h.store = snapshot.NewStoreWith(h.clock)
	if err := h.store.Add(h.policy); err != nil {
		t.Fatal(err)
	}
	h.store.Publish()
	here := authorize.LocalFunc(func(string, string) bool { return true })
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(h.store, nil).ServedBy(here)},
		authorize.Link{Name: links.Access, Authorizer: authorize.NewAccess(h.store).ServedBy(here)})
	if err != nil {
		t.Fatal(err)
	}
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: here})
	s := New(Config{Gate: gate, Store: h.store, Local: here, Recheck: recheck})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	last := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/exec" {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nbegun")
		_, _ = io.Copy(io.Discard, conn) // as upstream's handler, which does not look at the context
	})
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		snap, now := h.store.Now()
		ctx := requestctx.At(r.Context(), snap, now)
		attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: r.Header.Get("User")}, Verb: "create", Namespace: "a", APIVersion: "v1", Resource: "pods", Subresource: r.URL.Path[1:], Name: "p", ResourceRequest: true}
		v := gate.Decide(ctx, attrs)
		if v.Answer != authorize.Allowed {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		requestctx.From(ctx).Put(requestctx.Request, attrs, v.Pass)
		requestctx.From(ctx).NoteBy(requestctx.Request, v.By)
		s.Wrap(last).ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(h.CloseClientConnections)
	return h
}

// open begins a stream. What it returns is closed when the stream is over.
func (h *house) open(t *testing.T, who, what string) <-chan struct{} {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/"+what, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User", who)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, len("begun"))); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s by %s: %s, %v", what, who, resp.Status, err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	return over
}

func ends(t *testing.T, what string, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Errorf("%s does not end", what)
	}
}

func lasts(t *testing.T, what string, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
		t.Errorf("%s ended", what)
	default:
	}
}

// TM-5: an edge in time ends the streams of a right that ends, whatever the setting is; those of others go on.
func TestStreamsEndWithTheRight(t *testing.T) {
	for _, recheck := range []Recheck{Off, Conditional, All} {
		h := newHouse(t, recheck)
		exec, log := h.open(t, "short", "exec"), h.open(t, "short", "log")
		other, otherLog := h.open(t, "long", "exec"), h.open(t, "long", "log")
		h.clock.move(10)
		ends(t, string(recheck)+": exec", exec)
		ends(t, string(recheck)+": log", log)
		lasts(t, "exec of another", other)
		lasts(t, "log of another", otherLog)
	}
}

// TM-5: a change of policy ends the streams that the setting names.
func TestStreamsEndWithPolicy(t *testing.T) {
	for recheck, want := range map[Recheck]bool{Off: false, Conditional: false, All: true} {
		h := newHouse(t, recheck)
		exec, marker := h.open(t, "long", "exec"), h.open(t, "short", "exec")
		h.policy.mu.Lock()
		h.policy.index = h.policy.index.Apply(ruleset.Put(bound(map[string]policyv1alpha1.PolicyRoleBinding{"short": {RoleName: "r", UserNames: []string{"short"}, NotAfter: until(10)}})))
		h.policy.mu.Unlock()
		h.store.Publish()
		if want {
			ends(t, string(recheck), exec)
		}
		h.clock.move(10) // when this one is over, the others have been looked at
		ends(t, "the marker", marker)
		if !want {
			lasts(t, string(recheck), exec)
		}
	}
}

// TM-12: what a grant has opened ends when the grant is revoked, and not when another one is.
func TestStreamsEndWithTheGrant(t *testing.T) {
	for recheck, want := range map[Recheck]bool{Off: false, Conditional: true, All: true} {
		h := newHouse(t, recheck)
		publish := func(users ...string) {
			h.policy.mu.Lock()
			h.policy.grants = granted(users...)
			h.policy.mu.Unlock()
			h.store.Publish()
		}
		publish("alice", "bob", "long")
		alice, logs, bob, long := h.open(t, "alice", "exec"), h.open(t, "alice", "log"), h.open(t, "bob", "exec"), h.open(t, "long", "exec")
		publish("bob")
		if want {
			ends(t, string(recheck)+": exec by a grant that was revoked", alice)
			ends(t, string(recheck)+": log by a grant that was revoked", logs)
		} else {
			lasts(t, string(recheck)+": exec by a grant that was revoked", alice)
		}
		lasts(t, string(recheck)+": exec by another grant", bob)
		lasts(t, string(recheck)+": exec by another right", long)
		h.CloseClientConnections()
	}
}

// TM-5: nothing ends for system:masters and for the server itself, and a request that does not last is left alone.
func TestWhatIsNotFollowed(t *testing.T) {
	h := newHouse(t, All)
	here := authorize.LocalFunc(func(string, string) bool { return true })
	streams := func(reads authorize.Reads) *Streams {
		gate := authorize.NewGate(authorize.GateConfig{Conditional: true, Local: here, Reads: reads})
		return New(Config{Gate: gate, Local: here, Store: h.store, Recheck: All})
	}
	// The storage follows watches where reads are decided under a condition, and nowhere else.
	s, without := streams(authorize.ReadsFunc(func(authorizer.Attributes) error { return nil })), streams(nil)
	for name, tc := range map[string]struct {
		u         user.DefaultInfo
		verb, sub string
		want      bool
	}{
		"a user":         {user.DefaultInfo{Name: "u"}, "get", "exec", true},
		"system:masters": {user.DefaultInfo{Name: "u", Groups: []string{user.SystemPrivilegedGroup}}, "get", "exec", false},
		"the server":     {user.DefaultInfo{Name: user.APIServerUser}, "get", "exec", false},
		"a get":          {user.DefaultInfo{Name: "u"}, "get", "", false},
		"a watch":        {user.DefaultInfo{Name: "u"}, "watch", "", false},
	} {
		snap, now := h.store.Now()
		holder := requestctx.From(requestctx.At(t.Context(), snap, now))
		holder.Put(requestctx.Request, authorizer.AttributesRecord{User: &tc.u, Verb: tc.verb, Namespace: "a", APIVersion: "v1", Resource: "pods", Subresource: tc.sub, ResourceRequest: true}, requestctx.Allowed())
		if got := s.concerns(holder); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := without.concerns(holder); got != (tc.want || tc.verb == "watch") {
			t.Errorf("%s, without reads under a condition: %v", name, got)
		}
	}
	if s.concerns(nil) || EndsByTime(nil) {
		t.Error("a request without a state lasts")
	}
}
