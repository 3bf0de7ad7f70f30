package authorize

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// metered sums the samples of a metric that have all of these label values, whatever the labels are.
func metered(t *testing.T, name string, values ...string) (sum float64) {
	t.Helper()
	RegisterMetrics()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(has, v) }) {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// spans is a provider of one span, which keeps what it is told.
type spans struct {
	noop.Span
	said  map[string]string
	ended int
}

func (s *spans) IsRecording() bool                    { return true }
func (s *spans) TracerProvider() trace.TracerProvider { return spanProvider{s: s} }
func (s *spans) End(...trace.SpanEndOption)           { s.ended++ }
func (s *spans) SetAttributes(all ...attribute.KeyValue) {
	for _, kv := range all {
		s.said[string(kv.Key)] = kv.Value.Emit()
	}
}

type spanProvider struct {
	noop.TracerProvider
	s *spans
}

func (p spanProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return spanTracer{s: p.s} }

type spanTracer struct {
	noop.Tracer
	s *spans
}

func (t spanTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, t.s
}

// atSeven is a source of which everything up to revision 7 is known.
type atSeven struct{}

func (atSeven) Revision() revision.Vector {
	return revision.Vector{}.With(revision.Entry{Source: "policies.policy.proviso.dev", At: 7})
}
func (atSeven) OnMoved(func()) {}

// dated is a snapshot that knows how new it is.
func dated(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	store := snapshot.NewStore()
	store.Follow(atSeven{})
	p := &published{index: world(t, nil)}
	store.Add(p)
	stop := make(chan struct{})
	go store.Run(stop)
	t.Cleanup(func() { close(stop) })
	awaitIndex(t, store, p.index)
	return store.Current()
}

// CA-21, OP-7, DA-15, TR-13: what is written down of a decision at the filter.
func TestDecisionsAreWrittenDown(t *testing.T) {
	for name, c := range map[string]struct {
		verb                      string
		allowed, open             bool
		pending, outcome, refusal string
	}{
		"allowed":           {"update", true, false, "", "", ""},
		"under a condition": {"patch", true, true, "test", "", ""},
		"refused":           {"delete", false, false, "", "NoOpinion", ""},
	} {
		gate := gateOf(t, byVerb{allowed: []string{"update"}, conditional: []string{"patch"}})
		info, attrs := asked(c.verb)
		snap := dated(t)
		span := &spans{said: map[string]string{}}
		ctx := loud(t, trace.ContextWithSpan(request.WithRequestInfo(requestctx.With(t.Context(), snap), &info), span))
		refused, conditional := metered(t, "proviso_refusals_total", "authorization"), metered(t, "proviso_authorization_conditional_total", "test")
		decision, _, _ := gate.AtFilter().Authorize(ctx, attrs)
		if (decision == authorizer.DecisionAllow) != c.allowed {
			t.Errorf("%s: %v", name, decision)
		}
		by := requestctx.From(ctx).By(requestctx.Request)
		if c.allowed && by != "test" || !c.allowed && by != "" {
			t.Errorf("%s: by %q", name, by)
		}
		if got := noted(ctx, AnnotationPending); got != c.pending {
			t.Errorf("%s: pending %q", name, got)
		}
		if got := noted(ctx, AnnotationOutcome); got != c.outcome {
			t.Errorf("%s: outcome %q", name, got)
		}
		if got := noted(ctx, AnnotationRevision); got == "" || got != snap.Revision.Token() {
			t.Errorf("%s: revision %q, want %q", name, got, snap.Revision.Token())
		}
		if got := metered(t, "proviso_refusals_total", "authorization") - refused; (got == 1) == c.allowed {
			t.Errorf("%s: %v refusals are counted", name, got)
		}
		if got := metered(t, "proviso_authorization_conditional_total", "test") - conditional; (got == 1) != c.open {
			t.Errorf("%s: %v conditions are counted", name, got)
		}
		want := map[bool]string{true: "true", false: "false"}[c.open]
		if span.ended != 1 || span.said["conditional"] != want || span.said["decision"] != decision.String() {
			t.Errorf("%s: the span ended %d times and says %v", name, span.ended, span.said)
		}
		quiet := request.WithRequestInfo(requestctx.With(t.Context(), snap), &info)
		if again, _, _ := gate.AtFilter().Authorize(quiet, attrs); again != decision {
			t.Errorf("%s: %v if nobody audits it", name, again)
		}
	}
}

// OP-7: the count of refusals names the rule of a deny; of what nothing allows there is no rule.
func TestRefusalsAreCountedByRule(t *testing.T) {
	for want, d := range map[string]authorizer.ConditionsAwareDecision{"rule 7 says no": authorizer.ConditionsAwareDecisionDeny("rule 7 says no", nil), "": authorizer.ConditionsAwareDecisionNoOpinion("not me", nil)} {
		chain, err := NewChain(Link{Name: "a", Authorizer: &scripted{decision: d}})
		if err != nil {
			t.Fatal(err)
		}
		info, attrs := asked("delete")
		before := metered(t, "proviso_refusals_total", "authorization", want)
		_, _, _ = NewGate(GateConfig{Chain: chain}).AtFilter().Authorize(within(t, &info), attrs)
		if got := metered(t, "proviso_refusals_total", "authorization", want) - before; got != 1 {
			t.Errorf("%q: %v", want, got)
		}
		if got := metered(t, "proviso_refusals_total", "not me"); got != 0 {
			t.Errorf("what is no deny is taken for a rule: %v", got)
		}
	}
}

// TR-12, TM-12: a refusal names the command that says more and, if nothing denies it, the rules by which one may ask
// for it; what is allowed is left as it is.
func TestRefusalsAdvise(t *testing.T) {
	deny := readRule("configmaps", "", "")
	deny.Deny = true
	compile := compilerOf(t)
	asksFor := func(w *unionWorld) *unionWorld {
		w.grant("a", readMaps)
		w.granted = nil // there is the rule, and nothing granted
		return w
	}
	for name, c := range map[string]struct {
		world            *unionWorld
		command, request bool
	}{
		"allowed":                   {newUnionWorld(t, compile).rbac("a", readMaps), false, false},
		"nothing allows it":         {newUnionWorld(t, compile), true, false},
		"nothing allows it, a rule": {asksFor(newUnionWorld(t, compile)), true, true},
		"denied, a rule":            {asksFor(newUnionWorld(t, compile)).policy("a", deny), true, false},
		"allowed, a rule":           {asksFor(newUnionWorld(t, compile)).rbac("a", readMaps), false, false},
	} {
		for _, explain := range []bool{true, false} {
			attrs := inA("get")
			attrs.Path = "/x"
			c.world.gate.explain = explain
			ctx := audited(t, c.world.at(c.world.snapshot()), attrs)
			_, reason, _ := c.world.gate.AtFilter().Authorize(ctx, attrs)
			if got := strings.Contains(reason, "proviso explain get configmaps/o1"); got != (c.command && explain) {
				t.Errorf("%s, explain %v: %q", name, explain, reason)
			}
			if got := strings.Contains(reason, "g0"); got != (c.request && explain) || strings.HasPrefix(reason, ";") {
				t.Errorf("%s, explain %v: %q", name, explain, reason)
			}
			if c.world.gate.Explains() != explain {
				t.Error("the gate says otherwise")
			}
		}
	}
}

// newest is policy that is newer, or an error.
type newest struct {
	snap    *snapshot.Snapshot
	err     error
	forWhom string
}

func (n *newest) Reach(_ context.Context, user, token string) (*snapshot.Snapshot, error) {
	n.forWhom = user + " " + token
	return n.snap, n.err
}

// TR-14: a request that asks for newer policy is decided by that, and by no other.
func TestNewerPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		newer *newest
		token string
		want  authorizer.Decision
		asked string
	}{
		"not asked for":   {&newest{err: errors.New("too new")}, "", authorizer.DecisionAllow, ""},
		"it is there":     {&newest{snap: &snapshot.Snapshot{}}, "t7", authorizer.DecisionAllow, "edgar t7"},
		"it is not there": {&newest{err: errors.New("too new")}, "t7", authorizer.DecisionDeny, "edgar t7"},
	} {
		gate := gateOf(t, byVerb{allowed: []string{"update"}})
		gate.newest = c.newer
		info, attrs := asked("update")
		ctx := requestctx.With(t.Context(), &snapshot.Snapshot{})
		if c.token != "" {
			ctx, _ = requestctx.WithAtLeast(t.Context(), &snapshot.Snapshot{}, time.Time{}, c.token)
		}
		decision, reason, _ := gate.AtFilter().Authorize(request.WithRequestInfo(ctx, &info), attrs)
		if decision != c.want || c.newer.forWhom != c.asked || c.want == authorizer.DecisionDeny && reason != "too new" {
			t.Errorf("%s: %v, %q, asked %q", name, decision, reason, c.newer.forWhom)
		}
	}
}

// CA-9: a connection also needs create, if that is required; to foresee it tells nobody.
func TestConnectionsAlsoNeedCreate(t *testing.T) {
	exec := authorizer.AttributesRecord{Verb: "get", Resource: "pods", Subresource: "exec", ResourceRequest: true}
	for name, c := range map[string]struct {
		change  func(*authorizer.AttributesRecord)
		uniform bool
		want    string
	}{
		"exec": {func(*authorizer.AttributesRecord) {}, true, "create"}, "not required": {func(*authorizer.AttributesRecord) {}, false, ""},
		"its own verb": {func(a *authorizer.AttributesRecord) { a.Verb = "create" }, true, ""}, "no connection": {func(a *authorizer.AttributesRecord) { a.Subresource = "status" }, true, ""},
		"no resource": {func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }, true, ""},
	} {
		attrs := exec
		c.change(&attrs)
		gate := NewGate(GateConfig{UniformConnect: c.uniform, Conditional: c.uniform})
		if got := gate.AlsoNeeds(attrs); got != c.want || gate.UniformConnect() != c.uniform || gate.Conditional() != c.uniform {
			t.Errorf("%s: %q", name, got)
		}
	}
	seen := &witness{}
	gate := gateOf(t, byVerb{allowed: []string{"create"}})
	gate.observer = seen
	info, attrs := asked("get")
	ctx := within(t, &info)
	holder := requestctx.From(ctx)
	gate.Foresee(ctx, holder, created("yes"))
	if out := gate.Connect(ctx, holder, created("yes")); out.Decision == authorizer.DecisionAllow {
		t.Errorf("a request that was not decided: %+v", out)
	}
	if out := gate.AskAside(ctx, holder, "create", created("yes")); out.Decision == authorizer.DecisionAllow {
		t.Errorf("a request that was not decided, aside: %+v", out)
	}
	holder.Put(requestctx.Request, attrs, requestctx.Allowed())
	if gate.Foresee(ctx, holder, created("yes")); len(*seen) > 0 || holder.Get(requestctx.Connect).IsAllowed() {
		t.Errorf("told %d times", len(*seen))
	}
	if out := gate.Connect(ctx, holder, created("yes")); out.Decision != authorizer.DecisionAllow || !holder.Get(requestctx.Connect).IsAllowed() || len(*seen) != 1 {
		t.Errorf("connected: %+v", out)
	}
	if WithVerb(exec, "x").IsReadOnly() || WithVerb(exec, "x").GetVerb() != "x" {
		t.Error("a question about another verb reads only")
	}
	gate = gateOf(t, byVerb{conditional: []string{"create"}})
	if out := gate.Connect(ctx, holder, created("yes")); out.Decision != authorizer.DecisionAllow {
		t.Errorf("under a condition that holds: %+v", out)
	}
}

// TM-12: what is asked in admission is in the audit event, too, if a grant allows it, and only then.
func TestQuestionsInAdmissionAreAudited(t *testing.T) {
	for verb, want := range map[string]string{"update": "a/g0", "delete": ""} {
		w := newUnionWorld(t, compilerOf(t)).grant("a", writeMaps)
		snap := w.snapshot()
		attrs := inA("get")
		ctx := audited(t, w.at(snap), attrs)
		holder := requestctx.From(ctx)
		holder.Put(requestctx.Request, attrs, requestctx.Allowed())
		before := len(noted(ctx, accessv1alpha1.AnnotationRequest))
		if out := w.gate.AskAside(ctx, holder, verb, created("yes")); before != 0 || noted(ctx, accessv1alpha1.AnnotationRequest) != "" {
			t.Errorf("%s aside: %+v, audited", verb, out)
		}
		out := w.gate.Ask(ctx, holder, verb, created("yes"))
		if got := noted(ctx, accessv1alpha1.AnnotationRequest); got != want || (out.Decision == authorizer.DecisionAllow) != (want != "") || want != "" && out.Authorizer != links.Access {
			t.Errorf("%s: %+v, by %q", verb, out, got)
		}
	}
}

// CA-21: resolving is counted by what decided, and traced if somebody looks.
func TestEnforcementIsMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		out    requestctx.Outcome
		failed string
	}{
		"allowed": {requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: "m-a", Types: "t-a", Conditions: []string{"c"}}, "false"},
		"failed":  {requestctx.Outcome{Decision: authorizer.DecisionDeny, Authorizer: "m-b", Types: "t-b", Detail: errors.New("boom")}, "true"},
	} {
		span := &spans{said: map[string]string{}}
		before := metered(t, "proviso_enforcement_decisions_total", c.out.Authorizer, c.out.Types, c.out.Decision.String(), c.failed)
		took := metered(t, "proviso_enforcement_duration_seconds", c.out.Authorizer, c.out.Types)
		if out := Enforce(trace.ContextWithSpan(t.Context(), span), settled{c.out}, created("yes")); out.Decision != c.out.Decision {
			t.Errorf("%s: %+v", name, out)
		}
		if got := metered(t, "proviso_enforcement_decisions_total", c.out.Authorizer, c.out.Types, c.out.Decision.String(), c.failed) - before; got != 1 {
			t.Errorf("%s: %v decisions are counted", name, got)
		}
		if got := metered(t, "proviso_enforcement_duration_seconds", c.out.Authorizer, c.out.Types) - took; got != 1 {
			t.Errorf("%s: %v durations are counted", name, got)
		}
		if span.ended != 1 || span.said["authorizer"] != c.out.Authorizer || span.said["decision"] != c.out.Decision.String() {
			t.Errorf("%s: the span ended %d times and says %v", name, span.ended, span.said)
		}
	}
}

// SV-10: types that webhooks invent make no metrics without end.
func TestTypeLabelsAreBounded(t *testing.T) {
	l := labels{seen: map[string]bool{}}
	for i := range maxTypeLabels {
		value := strings.Repeat("x", i)
		for range 2 {
			if l.bounded(value) != value {
				t.Fatalf("the %dth value is cut off", i)
			}
		}
	}
	if got := l.bounded("one more"); got != "other" {
		t.Errorf("one more: %q", got)
	}
	if got := l.bounded("x"); got != "x" {
		t.Errorf("one that was seen: %q", got)
	}
}
