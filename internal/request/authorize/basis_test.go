package authorize

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// policyOf is a policy of a namespace with one role, and its binding to one user.
func policyOf(namespace, user string, rules ...string) (*policyv1alpha1.Policy, *policyv1alpha1.PolicyBinding) {
	role := policyv1alpha1.PolicyRole{}
	for _, where := range rules {
		role.Rules = append(role.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"get", "list", "watch"}, ResourceKinds: []string{"configmaps"}, Where: where})
	}
	return &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}, Roles: map[string]policyv1alpha1.PolicyRole{"r": role}},
		&policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{user}}}}
}

// readsGate is a gate over the tiers of Policy.
func readsGate(t testing.TB) *Gate {
	t.Helper()
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)},
		Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(store, nil).ServedBy(servedHere)}, Link{Name: "rbac", Authorizer: NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	return NewGate(GateConfig{Chain: chain, Conditional: true, Reads: ReadsFunc(func(authorizer.Attributes) error { return nil }),
		Local: LocalFunc(func(string, string) bool { return true })})
}

func compilerOf(t testing.TB) ruleset.CompileRule {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return (&rulecondition.Compiler{CEL: cel}).CompileRule
}

// RD-7, NI-6: after a change that does not concern a watch, and after the end of the right to it, nothing has to be
// computed. After a change of its rules it has to be.
func TestNarrowAgainSettlesWithoutWork(t *testing.T) {
	gate := readsGate(t)
	in := ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(t), Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}})}
	p, b := policyOf("hammer", "edgar", `resource.metadata.labels["a"] == "x"`)
	in.Policies, in.PolicyBindings = []*policyv1alpha1.Policy{p}, []*policyv1alpha1.PolicyBinding{b}
	first := &snapshot.Snapshot{Rules: ruleset.Build(in)}
	before, err := gate.NarrowFor(t.Context(), first, asks("watch"))
	if err != nil || before == nil {
		t.Fatal(before, err)
	}
	otherPolicy, otherBinding := policyOf("anvil", "wil", `resource.metadata.labels["a"] == "y"`)
	wider, _ := policyOf("hammer", "edgar", `resource.metadata.labels["a"] in ["x", "y"]`)
	for _, tc := range []struct {
		name          string
		changes       []ruleset.Change
		settled, gone bool
	}{
		{name: "of others", changes: []ruleset.Change{ruleset.Put(otherPolicy), ruleset.Put(otherBinding)}, settled: true},
		{name: "the end of the right", changes: []ruleset.Change{ruleset.Delete(b)}, settled: true, gone: true},
		{name: "of its rule", changes: []ruleset.Change{ruleset.Put(wider)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := &snapshot.Snapshot{Rules: first.Rules.Apply(tc.changes...)}
			n, settled, err := gate.NarrowAgain(t.Context(), next, asks("watch"), before)
			if settled != tc.settled || (err != nil) != tc.gone || settled && !tc.gone && n != before {
				t.Errorf("%v, settled %v, %v", n, settled, err)
			}
		})
	}
	if _, settled, _ := gate.NarrowAgain(t.Context(), first, asks("watch"), nil); settled {
		t.Error("settled although it is not known what it was narrowed to")
	}
}

// RD-7, RD-9: whatever changes, what is settled without work is what the work would give.
func TestNarrowAgainIsNarrowFor(t *testing.T) {
	gate, compile := readsGate(t), compilerOf(t)
	settled, due := 0, 0
	law.Rounds(t, 400, func(seed int64) int {
		w := &readsWorld{t: t, random: rand.New(rand.NewPCG(uint64(seed), 11)), gate: gate}
		w.snap = &snapshot.Snapshot{Rules: w.rules(compile)}
		attrs := w.list()
		before, err := gate.NarrowFor(t.Context(), w.snap, attrs)
		if err != nil || before == nil {
			return 1
		}
		for range 4 {
			p, b := policyOf(w.pick("hammer", "master", "anvil"), w.pick("edgar", "wil"), w.where(1))
			change := []ruleset.Change{ruleset.Put(p), ruleset.Put(b), ruleset.Delete(p), ruleset.Delete(b)}[w.random.IntN(4)]
			w.snap = &snapshot.Snapshot{Rules: w.snap.Rules.Apply(change)}
			want, wantErr := gate.NarrowFor(t.Context(), w.snap, attrs)
			got, known, gotErr := gate.NarrowAgain(t.Context(), w.snap, attrs, before)
			if !known {
				due++
				continue
			}
			settled++
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !sameNarrowing(got, want) {
				t.Fatalf("seed %d: %v %v without work, %v %v with it", seed, got, gotErr, want, wantErr)
			}
		}
		return 1
	})
	if settled < 200 || due < 100 {
		law.TooFew(t, "%d settled, %d not: the law proves little", settled, due)
	}
}

func sameNarrowing(a, b *requestctx.Narrowing) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Box.Equal(b.Box)
}
