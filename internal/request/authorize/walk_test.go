package authorize

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// chainOf names the authorizers a, b, c and so on.
func chainOf(t testing.TB, links ...*scripted) *Chain {
	t.Helper()
	named := make([]Link, len(links))
	for i, l := range links {
		named[i] = Link{Name: string(rune('a' + i)), Authorizer: l}
	}
	chain, err := NewChain(named...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// CA-13: a decision without conditions costs no allocation, whoever asks for it.
func TestUnconditionalDecisionsDoNotAllocate(t *testing.T) {
	yes := &scripted{decision: authorizer.ConditionsAwareDecisionAllow("yes", nil)}
	pass := &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("", nil)}
	no := &scripted{decision: authorizer.ConditionsAwareDecisionDeny("no", nil)}
	var attrs authorizer.Attributes = authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "get", Resource: "pods", ResourceRequest: true}
	for name, chain := range map[string]*Chain{"allow": chainOf(t, pass, pass, yes), "deny": chainOf(t, pass, no), "no opinion": chainOf(t, pass, pass)} {
		ctx := context.Background()
		if n := testing.AllocsPerRun(100, func() { chain.Decide(ctx, attrs) }); n != 0 {
			t.Errorf("%s: Decide allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = chain.Authorize(ctx, attrs) }); n != 0 {
			t.Errorf("%s: Authorize allocates %v times", name, n)
		}
	}
}

// FuzzFold: a verdict folds to what the chain decides for a caller that knows no conditions, and asks nobody again who
// has answered without one.
func FuzzFold(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		links, fresh := make([]*scripted, 1+r.IntN(6)), make([]*scripted, 0, 6)
		for i := range links {
			links[i] = &scripted{decision: randomDecision(r)}
			fresh = append(fresh, &scripted{decision: links[i].decision})
		}
		v := chainOf(t, links...).Decide(t.Context(), authorizer.AttributesRecord{})
		if v.Pending == nil && v.Denies == nil {
			return
		}
		got, reason, err := v.Fold(t.Context())
		want, wantReason, wantErr := chainOf(t, fresh...).Authorize(t.Context(), authorizer.AttributesRecord{})
		if got != want || reason != wantReason || (err == nil) != (wantErr == nil) {
			t.Fatalf("folded to %s (%s, %v), want %s (%s, %v)", got, reason, err, want, wantReason, wantErr)
		}
		for i, l := range links {
			if l.asked > 2 || l.asked > 1 && l.decision.IsUnconditional() {
				t.Fatalf("link %d was asked %d times: %s", i, l.asked, l.decision)
			}
		}
	})
}

// A walk that was left goes on where it was left, and a copy of it does not move the original.
func TestWalkGoesOn(t *testing.T) {
	a := &scripted{decision: authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[1])})}
	b := &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("none", nil)}
	c := &scripted{decision: authorizer.ConditionsAwareDecisionAllow("yes", nil)}
	v := chainOf(t, a, b, c).Decide(t.Context(), authorizer.AttributesRecord{})
	if v.Pending == nil || b.asked+c.asked != 0 {
		t.Fatalf("%+v after asking %d and %d", v, b.asked, c.asked)
	}
	for i := range 2 {
		if out := v.Pending.Resolve(t.Context(), nil); out.Decision != authorizer.DecisionAllow || out.Authorizer != "c" {
			t.Errorf("time %d: %+v", i, out)
		}
	}
	if a.asked != 1 || b.asked != 2 || c.asked != 2 {
		t.Errorf("asked %d, %d and %d times", a.asked, b.asked, c.asked)
	}
}

// Every link that a union names is looked up before any of them is believed.
func TestUnknownLinkFailsClosed(t *testing.T) {
	yes := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[0])})
	chain := chainOf(t, &scripted{decision: yes}, &scripted{decision: yes})
	for _, test := range []struct {
		name string
		want authorizer.Decision
	}{{"b", authorizer.DecisionAllow}, {"gone", authorizer.DecisionNoOpinion}} {
		var union authorizer.ConditionsAwareDecisionUnion
		union.Add("a", yes)
		union.Add(test.name, yes)
		if got, _, err := chain.EvaluateConditions(t.Context(), union.ToDecision(), nil); got != test.want || (err == nil) != (test.want == authorizer.DecisionAllow) {
			t.Errorf("%s: %s, %v", test.name, got, err)
		}
	}
}

// FP-6: whether the caller may write single fields is asked once, and the answer travels with the request.
func TestGranularIsAskedOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		said authorizer.ConditionsAwareDecision
		want bool
	}{
		{"allow", authorizer.ConditionsAwareDecisionAllow("granular", nil), true},
		{"conditional", authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[0])}), true},
		{"no opinion", authorizer.ConditionsAwareDecisionNoOpinion("", nil), false},
		{"failed", authorizer.ConditionsAwareDecisionNoOpinion("", errors.New("down")), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			link := &onlyGranular{scripted{decision: test.said}}
			chain, err := NewChain(Link{Name: "a", Authorizer: link})
			if err != nil {
				t.Fatal(err)
			}
			served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}}}}.Served()
			ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Served: served, Fields: &fieldperm.Table{}})
			attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{}, Verb: "update", APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true}
			holder := requestctx.From(ctx)
			decision, _, _ := NewGate(GateConfig{Chain: chain, Conditional: true, Local: LocalFunc(func(string, string) bool { return true })}).admit(ctx, holder, requestctx.Request, attrs)
			d := holder.Get(requestctx.Request)
			if passed := decision == authorizer.DecisionAllow; passed != test.want || d.IsGranular() != test.want || (d.Fields() != nil) != test.want {
				t.Fatalf("passed %v, granular %v, want %v", passed, d.IsGranular(), test.want)
			}
			if test.want && d.Fields().Resolve(ctx, nil).Decision != authorizer.DecisionAllow {
				t.Error("the answer got lost on its way")
			}
			if link.asked != 1 {
				t.Errorf("asked %d times", link.asked)
			}
		})
	}
}

// onlyGranular has an opinion on the verb granular alone, and counts questions about that.
type onlyGranular struct{ scripted }

func (o *onlyGranular) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if a.GetVerb() != fieldperm.Verb {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return o.scripted.ConditionsAwareAuthorize(ctx, a)
}
