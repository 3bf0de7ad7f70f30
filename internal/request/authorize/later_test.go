package authorize

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// stopped is a clock that stands still; the zero time is one that is not trusted.
type stopped time.Time

func (s stopped) Now() (time.Time, bool) { return time.Time(s), !time.Time(s).IsZero() }

// untilTen is a policy by which edgar may read config maps until ten.
func untilTen(t *testing.T, end time.Time) *snapshot.Snapshot {
	t.Helper()
	binding := policyv1alpha1.PolicyRoleBinding{RoleName: "r", UserNames: []string{"edgar"}}
	if !end.IsZero() {
		binding.NotAfter = &metav1.Time{Time: end}
	}
	rules := ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: newTokenWorld(t).snap.Served.Kinds(),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "master"},
			Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"configmaps"}}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "master", Namespace: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"r": binding}}}})
	return &snapshot.Snapshot{Rules: rules, Served: newTokenWorld(t).snap.Served, Synced: true}
}

// TM-3, TM-4: a request is decided again when it is admitted, if an edge has passed or the clock is trusted and was
// not, or was and is not any more; otherwise it is not, and costs nothing.
func TestDecidedAgain(t *testing.T) {
	ten := time.Unix(1750000000, 0)
	before, justBefore, after, never := ten.Add(-time.Minute), ten.Add(-time.Second), ten, time.Time{}
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)})
	if err != nil {
		t.Fatal(err)
	}
	gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere, Reads: anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}})
	for name, c := range map[string]struct {
		end, arrives, admitted time.Time
		again, allowed         bool
	}{
		"nothing ends":           {never, before, after, false, false},
		"before the end":         {ten, before, justBefore, false, false},
		"past the end":           {ten, before, after, true, false},
		"the clock is lost":      {ten, before, never, true, false},
		"the clock is found":     {ten, never, before, true, true},
		"found, past the end":    {ten, never, after, true, false},
		"the clock stays lost":   {ten, never, never, false, false},
		"a clock that goes back": {ten, after, before, true, true},
	} {
		ctx := requestctx.At(t.Context(), untilTen(t, c.end), c.arrives)
		holder := requestctx.From(ctx)
		attrs := asks("get")
		attrs.Name = "x"
		holder.Put(requestctx.Request, attrs, gate.Decide(ctx, attrs).Pass)
		_, later := Later{Gate: gate, Clock: stopped(c.admitted)}.Again(t.Context(), holder)
		if (later != nil) != c.again {
			t.Errorf("%s: decided again is %v, want %v", name, later != nil, c.again)
			continue
		}
		if later != nil && later.Get(requestctx.Request).IsAllowed() != c.allowed {
			t.Errorf("%s: allowed is %v, want %v", name, !c.allowed, c.allowed)
		}
	}
	if _, later := (Later{Gate: gate, Clock: stopped(after)}).Again(t.Context(), requestctx.From(requestctx.At(t.Context(), untilTen(t, ten), before))); later != nil {
		t.Error("a request that was not decided is decided again")
	}
}

// What links say without deciding is kept for those that go on, whatever it is; nothing is kept of nothing.
func TestRecordsAreKept(t *testing.T) {
	failed := errors.New("failed")
	for name, r := range map[string]*record{"a reason": {reasons: []string{"a"}}, "an error": {errs: []error{failed}}, "a failure": {failures: []error{failed}},
		"a reason and an error": {reasons: []string{"a"}, errs: []error{failed}}, "an error and a failure": {errs: []error{failed}, failures: []error{failed}},
		"a reason and a failure": {reasons: []string{"a"}, failures: []error{failed}}} {
		if kept := r.kept(); kept == nil || len(kept.reasons) != len(r.reasons) || len(kept.errs) != len(r.errs) || len(kept.failures) != len(r.failures) {
			t.Errorf("%s: %+v", name, kept)
		}
	}
	if (&record{}).kept() != nil {
		t.Error("something is kept of nothing")
	}
}
