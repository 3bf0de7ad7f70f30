package auditrule

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/apis/audit/validation"
	"k8s.io/apiserver/pkg/audit"
	upstream "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// upstreamEvaluator is stock's own evaluator for the policy, which stock's own validation must accept.
func upstreamEvaluator(t testing.TB, p *auditv1.Policy) audit.PolicyRuleEvaluator {
	t.Helper()
	internal, err := InternalPolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidatePolicy(internal); len(errs) > 0 {
		t.Fatalf("upstream refuses the policy: %v", errs)
	}
	return upstream.NewPolicyRuleEvaluator(internal)
}

// checkSinks compares every sink's level with the meaning that DA-2 and DA-3 give it and, where the sink has an
// equivalent audit policy, with what upstream's evaluator says for that. It returns how many sinks had one.
func checkSinks(t testing.TB, sources []Source, classes []*v1alpha1.AuditClass, budget int, requests []*authorizer.AttributesRecord) (compiled int) {
	t.Helper()
	ix := compile(sources, classes, budget)
	evaluators := make([]audit.PolicyRuleEvaluator, len(sources))
	for i := range sources {
		if p, err := ToPolicy(&sources[i].Policy, classes); err == nil {
			evaluators[i] = upstreamEvaluator(t, p)
			compiled++
		}
	}
	var levels []Level
	for _, a := range requests {
		levels = ix.Levels(a, levels)
		highest := None
		for i, got := range levels {
			highest = max(highest, got)
			if want := wantLevel(&sources[i].Policy, classes, a); got.String() != want {
				t.Fatalf("%s: level %s, want %s\nrequest %s\npolicy %s\nclasses %s", sources[i].Name, got, want, dump(a), dump(sources[i].Policy), dump(classes))
			}
			if evaluators[i] != nil {
				if want := evaluators[i].EvaluatePolicyRule(a).Level; got.Audit() != want {
					p, _ := ToPolicy(&sources[i].Policy, classes)
					t.Fatalf("%s: level %s, upstream's evaluator says %s for the compiled policy\nrequest %s\npolicy %s\nclasses %s\ncompiled %s",
						sources[i].Name, got, want, dump(a), dump(sources[i].Policy), dump(classes), dump(p))
				}
			}
		}
		if got := ix.Max(a); got != highest {
			t.Fatalf("Max is %s, the highest of Levels is %s\nrequest %s", got, highest, dump(a))
		}
	}
	return compiled
}

func dump(v any) string { return cmp.Diff(nil, v) }

func randomRequests(c *chooser, n int) []*authorizer.AttributesRecord {
	out := make([]*authorizer.AttributesRecord, n)
	for i := range out {
		out[i] = randomAttributes(c)
	}
	return out
}

// DA-2, DA-3, DA-5: the index gives each sink the level that its policy means, and that upstream's own evaluator gives
// for the compiled policy.
func TestIndexAgreesWithMeaningAndUpstream(t *testing.T) {
	compiled, total := 0, 0
	for seed := range runs(1500) {
		c := seeded(int64(seed))
		sources, classes := randomSinks(c, 1+c.n(6))
		compiled += checkSinks(t, sources, classes, rowBudget, randomRequests(c, 40))
		total += len(sources)
	}
	if compiled*4 < total {
		t.Errorf("only %d of %d random sinks have an audit policy: the comparison with upstream is too thin", compiled, total)
	}
	t.Logf("%d of %d sinks were compared with upstream's evaluator, on 40 requests each", compiled, total)
}

// DA-2: levels do not depend on whether a dimension is indexed or, being too large for its table, checked clause by
// clause.
func TestLevelsWithoutTables(t *testing.T) {
	for seed := range runs(300) {
		c := seeded(int64(seed))
		sources, classes := randomSinks(c, 1+c.n(4))
		for _, budget := range []int{0, 8, 64} {
			checkSinks(t, sources, classes, budget, randomRequests(c, 20))
		}
	}
}

// DA-12: an index of many words and blocks, with sinks that begin and end anywhere in them.
func TestLevelsOfManySinks(t *testing.T) {
	for seed := range runs(20) {
		c := seeded(int64(seed))
		var sources []Source
		var classes []*v1alpha1.AuditClass
		for batch := range 60 {
			s, cl := randomSinks(c, 8)
			for i := range cl {
				cl[i].Name = fmt.Sprintf("%d-%s", batch, cl[i].Name)
			}
			for i := range s {
				for j := range s[i].Policy.Rules {
					s[i].Policy.Rules[j].WithAuditClass = fmt.Sprintf("%d-%s", batch, s[i].Policy.Rules[j].WithAuditClass)
				}
			}
			sources, classes = append(sources, s...), append(classes, cl...)
		}
		ix := Compile(sources, classes)
		if ix.words < block+2 {
			t.Fatalf("only %d words: the test does not leave the first block", ix.words)
		}
		var levels []Level
		for _, a := range randomRequests(c, 20) {
			levels = ix.Levels(a, levels)
			highest := None
			for i := range sources {
				highest = max(highest, levels[i])
				if want := wantLevel(&sources[i].Policy, classes, a); levels[i].String() != want {
					t.Fatalf("sink %d: level %s, want %s", i, levels[i], want)
				}
			}
			if got := ix.Max(a); got != highest {
				t.Fatalf("Max is %s, want %s", got, highest)
			}
		}
	}
}

// DA-5: a policy file as a sink and classes, and that sink as a policy file again, give every request the level of the
// original.
func TestConvertedPoliciesAgreeWithUpstream(t *testing.T) {
	for seed := range runs(3000) {
		c := seeded(int64(seed))
		checkConversion(t, randomPolicy(c), randomRequests(c, 40))
	}
}

func checkConversion(t testing.TB, policy *auditv1.Policy, requests []*authorizer.AttributesRecord) {
	t.Helper()
	original := upstreamEvaluator(t, policy)
	there, err := FromPolicy("converted", policy)
	if err != nil {
		t.Fatalf("no sink for the policy: %v\n%s", err, dump(policy))
	}
	source := SourceOf(there.Sink)
	source.Receives = true
	ix := Compile([]Source{source}, there.Classes)
	if s := ix.Sinks()[0]; !s.Active {
		t.Fatalf("the converted sink is inactive: %s", s.Message)
	}
	back, err := ToPolicy(&there.Sink.Spec.Policy, there.Classes)
	if err != nil {
		t.Fatalf("no policy for the converted sink: %v\n%s", err, dump(policy))
	}
	again := upstreamEvaluator(t, back)
	for _, a := range requests {
		want := original.EvaluatePolicyRule(a).Level
		if got := ix.Levels(a, nil)[0].Audit(); got != want {
			t.Fatalf("converted sink: level %s, want %s\nrequest %s\npolicy %s\nclasses %s", got, want, dump(a), dump(policy), dump(there.Classes))
		}
		if got := again.EvaluatePolicyRule(a).Level; got != want {
			t.Fatalf("there and back: level %s, want %s\nrequest %s\npolicy %s\nback %s", got, want, dump(a), dump(policy), dump(back))
		}
	}
}
