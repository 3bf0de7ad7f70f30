package authorize

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// SV-8: what cannot be read yields to a grant for the whole cluster, and to nothing less.
func TestGrantedEverywhere(t *testing.T) {
	maps := rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	local := []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}}}
	nobody, err := NewChain(Link{Name: "rbac", Authorizer: byVerb{allowed: []string{"update"}}})
	if err != nil {
		t.Fatal(err)
	}
	masters, err := NewChain(Link{Name: "system-masters", Authorizer: byVerb{allowed: []string{"update"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		chain *Chain
		snap  *snapshot.Snapshot
		attrs authorizer.Attributes
		want  bool
	}{
		"a cluster role binding": {nobody, &snapshot.Snapshot{Rules: world(t, nil, maps)}, asks("update"), true},
		"for another verb":       {nobody, &snapshot.Snapshot{Rules: world(t, nil, maps)}, asks("delete"), false},
		"a right in a namespace": {nobody, &snapshot.Snapshot{Rules: world(t, local)}, asks("update"), false},
		"no rules":               {nobody, &snapshot.Snapshot{}, asks("update"), false},
		"no snapshot":            {nobody, nil, asks("update"), false},
		"system:masters":         {masters, nil, asks("update"), true},
		"nothing asked":          {masters, nil, nil, false},
	} {
		if got := tt.chain.GrantedEverywhere(t.Context(), tt.snap, tt.attrs); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// CA-19: a condition on impersonation counts only if conditions are switched on, and not where upstream remembers the
// answer.
func TestImpersonationUnderACondition(t *testing.T) {
	info, attrs := asked("get")
	ctx := request.WithUser(request.WithRequestInfo(requestctx.With(t.Context(), &snapshot.Snapshot{}), &info), &user.DefaultInfo{Name: "edgar"})
	for _, tt := range []struct {
		verb        string
		conditional bool
		want        authorizer.Decision
	}{
		{"impersonate", true, authorizer.DecisionAllow},
		{"impersonate", false, authorizer.DecisionNoOpinion},
		{"impersonate-on:user-info:get", true, authorizer.DecisionAllow},
		{"impersonate-on:user-info:get", false, authorizer.DecisionNoOpinion},
		{"impersonate:user-info", true, authorizer.DecisionNoOpinion},
		{"impersonate:user-info", false, authorizer.DecisionNoOpinion},
	} {
		gate := gateOf(t, byVerb{conditional: []string{tt.verb}})
		gate.conditional = tt.conditional
		attrs.Verb = tt.verb
		if got, _, err := gate.impersonate(ctx, attrs); got != tt.want || err != nil {
			t.Errorf("%s, conditions %v: %v, %v, want %v", tt.verb, tt.conditional, got, err, tt.want)
		}
	}
}

// Facts of others than the enforcer: a connection's options are its object, unless it has options of its own.
func TestFactsOfAConnection(t *testing.T) {
	exec, proxy := &corev1.PodExecOptions{Container: "c"}, &corev1.PodProxyOptions{Path: "/x"}
	facts := func(object, options runtime.Object, op admission.Operation) *expr.Data {
		return FactsOf(t.Context(), admission.NewAttributesRecord(object, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "hammer", "p",
			schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "exec", op, options, false, nil))
	}
	holds := func(text string, data *expr.Data) bool {
		t.Helper()
		env, err := expr.New(expr.Config{})
		if err != nil {
			t.Fatal(err)
		}
		program, issues := env.Compile(text, expr.Options{Kind: expr.When})
		if program == nil {
			t.Fatal(issues)
		}
		ok, err := program.Evaluate(t.Context(), expr.NewRequest(asks("create")), expr.Allow, data)
		return err == nil && ok
	}
	if !holds(`options.container == "c"`, facts(exec, nil, admission.Connect)) {
		t.Error("the options of a connection are not known")
	}
	if !holds(`options.path == "/x"`, facts(exec, proxy, admission.Connect)) {
		t.Error("a connection's own options are not taken")
	}
	if holds(`has(object.container)`, facts(exec, nil, admission.Connect)) {
		t.Error("a connection has an object")
	}
}

// recording is a span that somebody looks at.
type recording struct{ noop.Span }

func (recording) IsRecording() bool                    { return true }
func (recording) TracerProvider() trace.TracerProvider { return noop.NewTracerProvider() }

// A request that nobody traces has no span, and pays for none.
func TestSpansOnlyWhereSomebodyLooks(t *testing.T) {
	if _, span := startSpan(t.Context(), "x"); span != nil {
		t.Error("a span that nobody records was begun")
	}
	if _, span := startSpan(trace.ContextWithSpan(t.Context(), recording{}), "x"); span == nil {
		t.Error("no span below one that is recorded")
	}
}

// CA-10: a refusal names three conditions, and says how many more there are if there are any.
func TestUnmetNamesThree(t *testing.T) {
	for n, want := range map[int]string{1: "", 3: "", 4: "; and 1 more", 5: "; and 2 more"} {
		var all []authorizer.Condition
		for i := range n {
			all = append(all, condition(fmt.Sprintf("c%d", i), results[0]))
		}
		got := Unmet(authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, all).ConditionsMap())
		if _, more, _ := strings.Cut(got, "; and "); more != strings.TrimPrefix(want, "; and ") || strings.Count(got, "was not met") != min(n, 3) {
			t.Errorf("%d conditions: %s", n, got)
		}
	}
}

// SV-6: a trace says of a condition that needs the object that it is not known yet, for allows and denies alike.
func TestTraceLeavesConditionsOpen(t *testing.T) {
	const open = `resource.metadata.labels["good"] == "yes"`
	rules := []policyv1alpha1.PolicyRule{
		{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Where: open},
		{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Where: open},
		{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}},
	}
	store := storeWith(t, &published{index: world(t, rules)})
	var known []expr.Truth
	for _, a := range NewPolicyNamespace(store, nil).Applying(context.Background(), asks("create")) {
		known = append(known, a.Known)
	}
	if fmt.Sprint(known) != "[Unresolved Unresolved True]" {
		t.Errorf("known are %v", known)
	}
}

// DA-15: where conditions are not honoured, what they would have allowed is refused, and audit says how.
func TestRefusalWithoutConditionsIsInAudit(t *testing.T) {
	attrs := asks("update")
	attrs.Path = "/api/v1/namespaces/hammer/configmaps"
	for conditional, want := range map[bool]string{true: "", false: "NoOpinion"} {
		gate := gateOf(t, byVerb{conditional: []string{"update"}})
		gate.conditional = conditional
		ctx := audited(t, requestctx.With(t.Context(), &snapshot.Snapshot{}), attrs)
		if d, _, _ := gate.AtFilter().Authorize(ctx, attrs); (d == authorizer.DecisionAllow) != conditional {
			t.Errorf("conditions %v: %v", conditional, d)
		}
		if got, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationOutcome); got != want {
			t.Errorf("conditions %v: the outcome in audit is %q, want %q", conditional, got, want)
		}
	}
}
