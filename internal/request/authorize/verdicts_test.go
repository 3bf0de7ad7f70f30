package authorize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// answersOf is a chain of links with these answers, named a, b, c.
func answersOf(t *testing.T, answers ...authorizer.ConditionsAwareDecision) *Chain {
	t.Helper()
	var links []Link
	for i, d := range answers {
		links = append(links, Link{Name: string(rune('a' + i)), Authorizer: &scripted{decision: d}})
	}
	chain, err := NewChain(links...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func denyIf(result int) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{condition("d", results[result])}, nil, nil)
}

var (
	sayYes  = authorizer.ConditionsAwareDecisionAllow("yes", nil)
	sayNo   = authorizer.ConditionsAwareDecisionDeny("no", nil)
	silence = authorizer.ConditionsAwareDecisionNoOpinion("", nil)
)

// CA-6, SC-6: what becomes of a verdict where nothing looks at the object, and beside a server with authorizers of its
// own.
func TestWhatBecomesOfAVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		answers        []authorizer.ConditionsAwareDecision
		answer, folded Answer
		hangs, object  bool
		beside         authorizer.Decision
	}{
		"allowed":                         {[]authorizer.ConditionsAwareDecision{sayYes}, Allowed, Allowed, false, false, authorizer.DecisionAllow},
		"denied":                          {[]authorizer.ConditionsAwareDecision{sayNo}, Denied, Denied, false, false, authorizer.DecisionDeny},
		"nothing allows it":               {[]authorizer.ConditionsAwareDecision{silence}, Unanswered, Unanswered, false, false, authorizer.DecisionAllow},
		"a condition":                     {[]authorizer.ConditionsAwareDecision{oneAllow(0)}, Open, Unanswered, true, true, authorizer.DecisionAllow},
		"a condition that does not hold":  {[]authorizer.ConditionsAwareDecision{oneAllow(1)}, Open, Unanswered, true, true, authorizer.DecisionNoOpinion},
		"a condition, and an allow":       {[]authorizer.ConditionsAwareDecision{oneAllow(1), sayYes}, Open, Allowed, true, true, authorizer.DecisionAllow},
		"a condition, and a deny":         {[]authorizer.ConditionsAwareDecision{oneAllow(1), sayNo}, Open, Denied, true, true, authorizer.DecisionDeny},
		"a deny under a condition":        {[]authorizer.ConditionsAwareDecision{denyIf(0)}, Unanswered, Denied, true, false, authorizer.DecisionDeny},
		"one that does not hold":          {[]authorizer.ConditionsAwareDecision{denyIf(1)}, Unanswered, Denied, true, false, authorizer.DecisionAllow},
		"one that fails":                  {[]authorizer.ConditionsAwareDecision{denyIf(2)}, Unanswered, Denied, true, false, authorizer.DecisionDeny},
		"one that does not, and an allow": {[]authorizer.ConditionsAwareDecision{denyIf(1), sayYes}, Open, Denied, true, true, authorizer.DecisionAllow},
	} {
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
		v := NewGate(GateConfig{Chain: answersOf(t, c.answers...), Conditional: true, Local: servedHere}).Decide(ctx, asks("update"))
		if v.Answer != c.answer || v.Hangs() != c.hangs || v.DependsOnObject() != c.object {
			t.Errorf("%s: %v, hangs %v, depends on the object %v", name, v.Answer, v.Hangs(), v.DependsOnObject())
		}
		if got := v.Folded(ctx); got.Answer != c.folded || got.Hangs() || got.Pass.IsAllowed() != (c.folded == Allowed) {
			t.Errorf("%s, folded: %v (%s)", name, got.Answer, got.Reason)
		}
		pass := v.Beside()
		got := authorizer.DecisionDeny
		switch {
		case pass.IsAllowed():
			got = authorizer.DecisionAllow
		case pass.Pending() != nil:
			out := pass.Pending().Resolve(ctx, created("yes"))
			if got = out.Decision; c.answer == Unanswered && got == authorizer.DecisionAllow && out.Reason != "another authorizer has allowed it" {
				t.Errorf("%s, beside: %+v", name, out)
			}
		}
		if got != c.beside {
			t.Errorf("%s, beside: %v, want %v", name, got, c.beside)
		}
	}
	granular := Verdict{Answer: Open, Pass: requestctx.Granular(nil)}
	if granular.DependsOnObject() || !(Verdict{Answer: Unanswered, unselectable: errors.New("x")}).DependsOnObject() {
		t.Error("what depends on the object is told wrongly")
	}
}

// RD-3, PO-7: a read under a condition is refused as what the links without conditions say: a deny that comes after
// an allow under a condition is overridden, one that comes ahead of it, or under a condition, is not.
func TestReadsThatAreDenied(t *testing.T) {
	for name, c := range map[string]struct {
		answers []authorizer.ConditionsAwareDecision
		want    Answer
	}{
		"a condition": {[]authorizer.ConditionsAwareDecision{oneAllow(0)}, Open}, "and a deny": {[]authorizer.ConditionsAwareDecision{oneAllow(0), sayNo}, Open}, "behind a deny": {[]authorizer.ConditionsAwareDecision{sayNo, oneAllow(0)}, Denied},
		"and an allow": {[]authorizer.ConditionsAwareDecision{oneAllow(0), sayYes}, Allowed}, "behind a deny under a condition": {[]authorizer.ConditionsAwareDecision{denyIf(1), oneAllow(0), sayNo}, Denied},
		"ahead of a deny under a condition": {[]authorizer.ConditionsAwareDecision{oneAllow(0), denyIf(1), sayNo}, Denied}, "two, and a deny": {[]authorizer.ConditionsAwareDecision{oneAllow(1), oneAllow(0), sayNo}, Open},
		"an error": {[]authorizer.ConditionsAwareDecision{oneAllow(0), authorizer.ConditionsAwareDecisionNoOpinion("", errors.New("boom"))}, Unanswered},
	} {
		gate := NewGate(GateConfig{Chain: answersOf(t, c.answers...), Conditional: true, Local: servedHere, Reads: anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}})
		attrs := asks("get")
		attrs.Name = "x"
		if v := gate.Decide(requestctx.With(t.Context(), &snapshot.Snapshot{}), attrs); v.Answer != c.want {
			t.Errorf("%s: %v (%s), want %v", name, v.Answer, v.Reason, c.want)
		}
		// Conditions that are no rules of a policy narrow no list, which is refused as the rest of the chain says.
		want := c.want
		if want == Open {
			want = map[bool]Answer{true: Denied, false: Unanswered}[strings.Contains(name, "a deny")]
		}
		v := gate.Decide(requestctx.With(t.Context(), &snapshot.Snapshot{}), asks("list"))
		if v.Answer != want || c.want == Open && (v.unselectable == nil || !v.DependsOnObject()) {
			t.Errorf("%s, a list: %v (%s), want %v", name, v.Answer, v.Reason, want)
		}
	}
	if (Partial{}).overridesDeny(t.Context()) {
		t.Error("nothing overrides a deny")
	}
}

// CA-2: a condition of a webhook that is configured to fail open fails so, if it denies; every other one fails closed.
func TestFailingOpen(t *testing.T) {
	for name, c := range map[string]struct {
		d    authorizer.ConditionsAwareDecision
		open bool
		want authorizer.Decision
	}{
		"a deny that fails": {denyIf(2), false, authorizer.DecisionDeny}, "a deny that fails open": {denyIf(2), true, authorizer.DecisionNoOpinion}, "a deny that holds": {denyIf(0), true, authorizer.DecisionDeny},
		"an allow that fails": {oneAllow(2), true, authorizer.DecisionNoOpinion}, "an allow that holds": {oneAllow(0), true, authorizer.DecisionAllow},
	} {
		link := Link{Name: "a", FailOpen: c.open, Authorizer: &scripted{decision: c.d}}
		if got, _, _ := evaluate(t.Context(), link, c.d, nil); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	odd := &lying{}
	for name, c := range map[string]struct {
		d    authorizer.ConditionsAwareDecision
		says authorizer.Decision
		want authorizer.Decision
	}{
		"an allow that cannot be": {denyIf(1), authorizer.DecisionAllow, authorizer.DecisionDeny}, "a deny that cannot be": {oneAllow(1), authorizer.DecisionDeny, authorizer.DecisionNoOpinion}, "no decision at all": {oneAllow(1), 99, authorizer.DecisionNoOpinion},
		"what can be": {oneAllow(1), authorizer.DecisionAllow, authorizer.DecisionAllow},
	} {
		odd.says = c.says
		got, reason, err := evaluate(t.Context(), Link{Name: "a", Authorizer: odd}, c.d, nil)
		if got != c.want || (err != nil) != (c.says != c.want) || err != nil && reason != "failed closed" {
			t.Errorf("%s: %v, %q, %v", name, got, reason, err)
		}
	}
}

// lying evaluates conditions to what it is told.
type lying struct {
	scripted
	says authorizer.Decision
}

func (l *lying) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return l.says, "", nil
}

// Reviews: the eager form of a chain asks no link behind one that has decided, and evaluates what it has answered, by
// the links that it has.
func TestTheEagerChain(t *testing.T) {
	last := &scripted{decision: sayNo}
	chain, err := answersOf(t, sayYes).With(Link{Name: "a", Authorizer: &scripted{decision: denyIf(1)}}, Link{Name: "b", Authorizer: &scripted{decision: sayYes}}, Link{Name: "c", Authorizer: last})
	if err != nil {
		t.Fatal(err)
	}
	d := chain.ConditionsAwareAuthorize(t.Context(), asks("create"))
	if n := 0; last.asked != 0 || !d.IsUnion() {
		t.Errorf("%d, %v", n, d)
	}
	if got, _, err := chain.EvaluateConditions(t.Context(), d, nil); got != authorizer.DecisionAllow || err != nil {
		t.Errorf("evaluated: %v, %v", got, err)
	}
	none := answersOf(t, oneAllow(1), authorizer.ConditionsAwareDecisionNoOpinion("not me", errors.New("away")))
	d = none.ConditionsAwareAuthorize(t.Context(), asks("create"))
	if got, reason, err := none.EvaluateConditions(t.Context(), d, nil); got != authorizer.DecisionNoOpinion || !strings.Contains(reason, "not me") || err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("nothing decides: %v, %q, %v", got, reason, err)
	}
	if got, _, err := answersOf(t, sayYes).EvaluateConditions(t.Context(), d, nil); got == authorizer.DecisionAllow || err == nil {
		t.Errorf("by a chain without the links: %v, %v", got, err)
	}
	if got, _, err := none.EvaluateConditions(t.Context(), sayYes, nil); got == authorizer.DecisionAllow || err == nil {
		t.Errorf("what it did not answer: %v, %v", got, err)
	}
}

// A walk says why nothing decides, with the links that said so; a condition that failed is not an error of the server.
func TestWalksSayWhy(t *testing.T) {
	away := errors.New("away")
	chain := answersOf(t, authorizer.ConditionsAwareDecisionNoOpinion("not me", nil), authorizer.ConditionsAwareDecisionNoOpinion("nor me", away))
	got, reason, err := chain.Authorize(t.Context(), asks("create"))
	if got != authorizer.DecisionNoOpinion || reason != "a: not me\nb: nor me" || !errors.Is(err, away) {
		t.Errorf("%v, %q, %v", got, reason, err)
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{"an error": {away, true}, "a condition that failed": {&SetError{Err: away}, false}} {
		_, _, err := answersOf(t, authorizer.ConditionsAwareDecisionDeny("no", c.err)).Authorize(t.Context(), asks("create"))
		if (err != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// CA-21: the rule that decided is the one that the reason names or, if that names none, the only one of that effect
// which applies. A rule that yields or does not hold has not decided.
func TestWhichRuleHasDecided(t *testing.T) {
	hits := func(rules ...policyv1alpha1.PolicyRule) map[string]ruleset.Hit {
		ix := world(t, rules)
		found := map[string]ruleset.Hit{}
		for _, effect := range []ruleset.Effect{ruleset.Allows, ruleset.Denies} {
			var q ruleset.Query
			q.Reset(ix, asks("create"))
			for i, h := range q.AppendAll(nil, ruleset.TierNamespace, effect) {
				found[fmt.Sprint(map[ruleset.Effect]string{ruleset.Allows: "allow", ruleset.Denies: "deny"}[effect], i)] = h
			}
		}
		return found
	}(policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}, policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"*"}},
		policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}, policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"*"}})
	if len(hits) != 4 {
		t.Fatalf("%d rules", len(hits))
	}
	holds := func(names ...string) (all []Applied) {
		for _, n := range names {
			all = append(all, Applied{Hit: hits[n], Known: expr.True})
		}
		return all
	}
	yields, not := holds("deny0"), holds("allow0")
	yields[0].Yields, not[0].Known = true, expr.False
	for name, c := range map[string]struct {
		rules    []Applied
		decision authorizer.Decision
		reason   string
		want     string
	}{
		"the only allow": {holds("allow0", "deny0"), authorizer.DecisionAllow, "", "allow0"}, "the only deny": {holds("allow0", "deny0"), authorizer.DecisionDeny, "", "deny0"}, "one of two": {holds("allow0", "allow1"), authorizer.DecisionAllow, "", ""},
		"the one that is named": {holds("allow0", "allow1"), authorizer.DecisionAllow, hits["allow1"].Reason(), "allow1"}, "one that is named, of the other effect": {holds("allow0", "deny0"), authorizer.DecisionDeny, hits["allow0"].Reason(), "deny0"},
		"one that yields": {yields, authorizer.DecisionDeny, "", ""}, "one that does not hold": {not, authorizer.DecisionAllow, "", ""}, "the one that holds": {append(not, holds("allow1")...), authorizer.DecisionAllow, "", "allow1"},
		"no opinion": {holds("allow0", "deny0"), authorizer.DecisionNoOpinion, "", "deny0"}, "none": {nil, authorizer.DecisionAllow, "", ""},
	} {
		got, ok := deciding(c.rules, c.decision, c.reason)
		if ok != (c.want != "") || ok && got != hits[c.want] {
			t.Errorf("%s: %v, want %q", name, ok, c.want)
		}
	}
	// A decision whose link is not known is that of the link whose rule gave the reason, and of no other.
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "webhook", Type: TypeWebhook, Authorizer: byVerb{}}, Link{Name: "policy-namespace", Type: "Policy", Authorizer: NewPolicyNamespace(store, nil)}, Link{Name: "rbac", Type: "RBAC", Authorizer: NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	snap := &snapshot.Snapshot{Rules: world(t, []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}})}
	var reasonOf string
	for _, a := range NewPolicyNamespace(store, nil).Applying(requestctx.With(t.Context(), snap), asks("create")) {
		reasonOf = a.Hit.Reason()
	}
	for _, c := range []struct {
		out  requestctx.Outcome
		want string
	}{
		{requestctx.Outcome{Decision: authorizer.DecisionAllow, Reason: reasonOf}, `"authorizer":"Policy"`}, {requestctx.Outcome{Decision: authorizer.DecisionAllow, Reason: "another"}, `{"decision":"allow"}`},
		{requestctx.Outcome{Decision: authorizer.DecisionAllow}, `{"decision":"allow"}`}, {requestctx.Outcome{Decision: authorizer.DecisionAllow, Reason: reasonOf, Authorizer: "webhook"}, `"authorizer":"Webhook"`},
		{requestctx.Outcome{Decision: authorizer.DecisionAllow, Reason: reasonOf, Authorizer: "nobody"}, `{"decision":"allow"}`}, {requestctx.Outcome{Decision: authorizer.DecisionDeny, Reason: reasonOf}, `{"decision":"deny"}`},
	} {
		ctx := loud(t, requestctx.With(t.Context(), snap))
		w := chain.Walk(asks("create"))
		w.record(ctx, c.out)
		if got := noted(ctx, AnnotationAuthorizationDecision); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.out, got, c.want)
		}
	}
}

// TM-4: a request that creates is decided again for both of its checks; what is not allowed any more leaves its slot
// empty, and nothing fills the slot of a check that was never allowed.
func TestBothChecksAreDecidedAgain(t *testing.T) {
	ten := time.Unix(1750000000, 0)
	for name, c := range map[string]struct {
		answers         byVerb
		request, create bool
	}{"both": {byVerb{allowed: []string{"update", "create"}}, true, true}, "the update": {byVerb{allowed: []string{"update"}}, true, false}, "the create": {byVerb{allowed: []string{"create"}}, false, true}, "neither": {byVerb{}, false, false}} {
		gate := gateOf(t, c.answers)
		ctx := requestctx.At(t.Context(), untilTen(t, ten), ten.Add(-time.Minute))
		holder := requestctx.From(ctx)
		holder.Put(requestctx.Request, asks("update"), requestctx.Allowed())
		_, later := Later{Gate: gate, Clock: stopped(ten)}.Again(t.Context(), holder)
		if later == nil || later.Get(requestctx.Request).IsAllowed() != c.request || later.Get(requestctx.Create).IsAllowed() != c.create {
			t.Errorf("%s: %+v", name, later)
			continue
		}
		if got := later.Attributes(); got == nil || got.GetVerb() != "update" {
			t.Errorf("%s: the request is about %v", name, got)
		}
	}
}

// FP-6, RD-1: the audit event says what a request waits for: field permissions, selectors that were added, or the links
// whose conditions are open.
func TestWhatARequestWaitsFor(t *testing.T) {
	table, _ := fieldperm.New(fieldperm.Config{})
	filter := func(gate *Gate, snap *snapshot.Snapshot, attrs authorizer.AttributesRecord) context.Context {
		attrs.Path = "/x"
		ctx := audited(t, requestctx.With(t.Context(), snap), attrs)
		if d, reason, _ := gate.AtFilter().Authorize(ctx, attrs); d != authorizer.DecisionAllow {
			t.Errorf("%v: %s", d, reason)
		}
		return ctx
	}
	ctx := filter(gateOf(t, byVerb{allowed: []string{fieldperm.Verb}}), &snapshot.Snapshot{Fields: table, Served: unionServed()}, asks("update"))
	if got := noted(ctx, AnnotationPending); got != fieldperm.Verb {
		t.Errorf("single fields: %q", got)
	}
	gate := readsGate(t)
	snap := &snapshot.Snapshot{Rules: world(t, []policyv1alpha1.PolicyRule{{Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes"`}})}
	list := asks("list")
	ctx = filter(gate, snap, list)
	if pending, narrowed := noted(ctx, AnnotationPending), noted(ctx, AnnotationNarrowed); pending != "policy-namespace" || narrowed != "labelSelector good=yes" {
		t.Errorf("a list: %q, %q", pending, narrowed)
	}
	list.LabelSelectorRequirements, _ = kubelabels.ParseToRequirements("good=yes")
	if narrowed := noted(filter(gate, snap, list), AnnotationNarrowed); narrowed != "" {
		t.Errorf("a list whose selectors say all of it: %q", narrowed)
	}
	w := newUnionWorld(t, compilerOf(t)).rbac("a", readMaps).policy("b", readRule("configmaps", "", ""))
	ctx = filter(w.gate, w.snapshot(), listOf("configmaps"))
	if pending, narrowed := noted(ctx, AnnotationPending), noted(ctx, AnnotationNarrowed); pending != "rbac,policy-namespace" && pending != "policy-namespace,rbac" || narrowed != "2 namespaces" {
		t.Errorf("a union: %q, %q", pending, narrowed)
	}
	waits := gateOf(t, byVerb{})
	waits.Chain = answersOf(t, denyIf(1), sayYes)
	if pending := noted(filter(waits, &snapshot.Snapshot{}, asks("update")), AnnotationPending); pending != "a" {
		t.Errorf("a deny ahead of an allow: %q", pending)
	}
}

// Gates: reads under conditions and unions need both conditions and somebody who decides reads.
func TestUnionsNeedReads(t *testing.T) {
	reads := ReadsFunc(func(authorizer.Attributes) error { return nil })
	for _, c := range []struct {
		unions, conditional bool
		reads               Reads
		want                bool
	}{{true, true, reads, true}, {true, true, nil, false}, {true, false, reads, false}, {false, true, reads, false}} {
		if got := NewGate(GateConfig{Unions: c.unions, Conditional: c.conditional, Reads: c.reads}).unions; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// CA-10: a failed condition is reported wherever the gate is asked.
func TestFailuresAreReportedEverywhere(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"*", "impersonate"}, ResourceKinds: []string{"*"}, When: `request.extra["clearance"][0] == "top"`}
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{rule})})
	gate := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Local: servedHere})
	for name, ask := range map[string]func(context.Context, *requestctx.State){
		"in admission": func(ctx context.Context, h *requestctx.State) { gate.Ask(ctx, h, "update", created("yes")) },
		"for another user": func(ctx context.Context, _ *requestctx.State) {
			attrs := asks("impersonate")
			_, _, _ = gate.impersonate(ctx, attrs)
		},
		"an effect": func(ctx context.Context, _ *requestctx.State) { gate.Denied(ctx, asks("delete"), created("yes")) },
	} {
		ctx := requestctx.With(t.Context(), store.Current())
		holder := requestctx.From(ctx)
		holder.Put(requestctx.Request, asks("get"), requestctx.Allowed())
		before := failures(t)
		if ask(ctx, holder); failures(t) == before {
			t.Errorf("%s: it is not counted", name)
		}
	}
}

// CA-11: conditions that came as text are evaluated if they are of the type that is known here, for a client who waits,
// with what admission knows of the request.
func TestConditionsThatCameAsText(t *testing.T) {
	env, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := NewCELConditions(env)
	left, leave := context.WithCancel(t.Context())
	leave()
	of := func(kind, text string) authorizer.Condition {
		return authorizer.GenericCondition{ID: "x/y", Type: kind, Condition: text}
	}
	for name, c := range map[string]struct {
		ctx          context.Context
		c            authorizer.Condition
		holds, fails bool
	}{
		"it holds": {t.Context(), of(expr.TypeCEL, `object.metadata.name == "x"`), true, false}, "it does not": {t.Context(), of(expr.TypeCEL, `object.metadata.name == "y"`), false, false}, "another type": {t.Context(), of("other", `true`), false, true},
		"nobody waits": {left, of(expr.TypeCEL, `object.metadata.name == "x"`), false, true}, "no expression": {t.Context(), of(expr.TypeCEL, `(`), false, true}, "it fails": {t.Context(), of(expr.TypeCEL, `object.metadata.labels["a"] == "b"`), false, true},
	} {
		if holds, err := e.Evaluate(c.ctx, c.c, created("yes")); holds != c.holds || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, holds, err)
		}
	}
	// PO-20: data without a name are about an object that has one.
	for text, want := range map[string]bool{`request.name == "x"`: true, `request.name != "x"`: false, `request.name == ""`: false} {
		if holds, err := e.Evaluate(t.Context(), of(expr.TypeCEL, text), namelessData{created("yes")}); err != nil || holds != want {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	r := requestOf(userData{created("yes"), &user.DefaultInfo{Name: "edgar", UID: "u", Groups: []string{"g"}}})
	if r.User != "edgar" || r.UID != "u" || !slices.Equal(r.Groups, []string{"g"}) || r.Verb != "create" || r.Resource != "configmaps" || r.Namespace != "hammer" || r.Name != "x" {
		t.Errorf("%+v", r)
	}
	if r := requestOf(userData{created("yes"), nil}); r.User != "" {
		t.Errorf("nobody: %+v", r)
	}
}

type userData struct {
	authorizer.ConditionsData
	u user.Info
}

func (u userData) GetUserInfo() user.Info { return u.u }

type namelessData struct{ authorizer.ConditionsData }

func (namelessData) GetName() string { return "" }
