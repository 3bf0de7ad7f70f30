package authorize

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
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

// TM-12: what RBAC allows, no grant has made possible, although it could have; nor does a list of one namespace show
// what is granted in another.
func TestGrantsThatWereNotUsed(t *testing.T) {
	compile := compilerOf(t)
	one := asks("list")
	one.Namespace = "a"
	for name, c := range map[string]struct {
		world *unionWorld
		attrs authorizer.AttributesRecord
	}{
		"a read": {newUnionWorld(t, compile).grant("a", readMaps).rbac("a", readMaps), inA("get")}, "a write": {newUnionWorld(t, compile).grant("a", writeMaps).rbac("a", writeMaps), inA("update")},
		"a narrowed list": {newUnionWorld(t, compile).grant("b", readMaps).policy("a", readRule("configmaps", "", `resource.metadata.labels.team == "x"`)), one},
	} {
		attrs := c.attrs
		attrs.Path = "/x"
		ctx := audited(t, c.world.at(c.world.snapshot()), attrs)
		if d, reason, _ := c.world.gate.AtFilter().Authorize(ctx, attrs); d != authorizer.DecisionAllow {
			t.Errorf("%s: %v (%s)", name, d, reason)
		}
		if got := noted(ctx, "access.proviso.dev/request"); got != "" {
			t.Errorf("%s: by the grant %q", name, got)
		}
	}
}

// TM-11, CA-19: an impersonation that a grant allows under a condition is in the audit event if the condition holds.
func TestImpersonationByAGrantUnderACondition(t *testing.T) {
	for verb, want := range map[string]string{"get": "master/g0", "delete": ""} {
		w := newUnionWorld(t, compilerOf(t)).grant("master", readMaps)
		w.rules[0].Spec.SpecialVerbs, w.granted[0].Status.Granted.SpecialVerbs = true, true
		ref := accessv1alpha1.AccessRoleRef{Name: "r"}
		w.rules[0].Spec.RoleRef, w.granted[0].Status.Granted.RoleRef = ref, ref
		snap := w.snapshot()
		snap.Access = access.Build(access.Input{MasterNamespace: "master", Rules: w.rules, Requests: w.granted, Namespaces: uids{}, CompileRule: w.in.CompileRule, Kinds: w.in.Kinds,
			Policy: policyIn("master", policyv1alpha1.PolicyRule{Verbs: []string{"impersonate"}, ResourceKinds: []string{"users"}, When: `impersonatedRequest.verb == "get"`})})
		info, attrs := asked(verb)
		attrs.Verb, attrs.APIGroup, attrs.APIVersion, attrs.Resource, attrs.Namespace, attrs.Name, attrs.Path = "impersonate", "", "v1", "users", "", "ann", ""
		ctx := loud(t, request.WithUser(request.WithRequestInfo(w.at(snap), &info), attrs.User))
		decision, reason, _ := w.gate.AtFilter().Authorize(ctx, attrs)
		if got := noted(ctx, accessv1alpha1.AnnotationRequest); got != want || (decision == authorizer.DecisionAllow) != (want != "") {
			t.Errorf("%s: %v (%s), by %q", verb, decision, reason, got)
		}
	}
}

// CA-6: rights to single fields fold to nothing, whatever else is known; what allows nothing overrides no deny.
func TestNothingIsLeftOfRightsToFields(t *testing.T) {
	v := Verdict{Answer: Open, Pass: requestctx.Granular(nil), known: Partial{Decision: authorizer.DecisionNoOpinion}}
	if got := v.Folded(t.Context()); got.Answer != Unanswered {
		t.Errorf("folded: %v", got.Answer)
	}
	if answersOf(t, oneAllow(0)).Decide(t.Context(), asks("get")).overridesDeny(t.Context()) {
		t.Error("a deny that is not there is overridden")
	}
	if _, set := (Partial{}).apart(); set != nil {
		t.Error("nothing has the answer of a token")
	}
}

// TR-13: a policy that does not know how new it is says nothing of that in audit.
func TestPolicyWithoutARevision(t *testing.T) {
	info, attrs := asked("update")
	ctx := loud(t, within(t, &info))
	_, _, _ = gateOf(t, byVerb{allowed: []string{"update"}}).AtFilter().Authorize(ctx, attrs)
	if got, said := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationRevision); said {
		t.Errorf("the revision is %q", got)
	}
}

// CA-26: which conditions a connection asks is found out by asking whether it may be created.
func TestForeseeingAsks(t *testing.T) {
	link := &scripted{decision: oneAllow(0)}
	chain, err := NewChain(Link{Name: "a", Authorizer: link})
	if err != nil {
		t.Fatal(err)
	}
	info, attrs := asked("get")
	ctx := within(t, &info)
	requestctx.From(ctx).Put(requestctx.Request, attrs, requestctx.Allowed())
	if NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere}).Foresee(ctx, requestctx.From(ctx), created("yes")); link.asked == 0 {
		t.Error("nothing is asked")
	}
}

// PO-20: a refusal of an eviction names the condition on the eviction, and not that on a delete.
func TestRefusedEvictionsNameTheEviction(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.labels["good"] == "yes"`}
	tier, ctx := policyTier(t, rule, policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*", "pods/eviction"}})
	for sub, evicts := range map[string]bool{"eviction": true, "": false} {
		attrs := asks(map[bool]string{true: "create", false: "delete"}[evicts])
		attrs.Resource, attrs.Subresource, attrs.Name = "pods", sub, "p"
		_, set := tier.open(ctx, attrs, lists{})
		if set == nil || len(set.denies) != 1 {
			t.Fatalf("%q: %+v", sub, set)
		}
		if got := set.because(set.denies[0], "denied"); strings.Contains(got, "/evict") != evicts || !strings.Contains(got, set.denies[0].GetID()) {
			t.Errorf("%q: %s", sub, got)
		}
	}
}

// TR-6: what is supposed does not take away a deny that says more than that something cannot be read; a rule that is
// limited to names is supposed for lists by name.
func TestWhatIsSupposedOverridesNoDeny(t *testing.T) {
	allow := policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}}
	deny, named := allow, allow
	deny.Deny, named.ResourceNames = true, []string{"x"}
	hit := func(rule policyv1alpha1.PolicyRule) ruleset.Hit {
		var q ruleset.Query
		q.Reset(world(t, []policyv1alpha1.PolicyRule{rule}), asks("list"))
		q.ByName()
		all := q.AppendAll(nil, ruleset.TierNamespace, ruleset.Allows)
		if len(all) != 1 {
			t.Fatalf("%d rules", len(all))
		}
		return all[0]
	}
	ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: worldIn(t, "master", []policyv1alpha1.PolicyRule{deny})})
	if got, _, _ := NewPolicyMaster(snapshot.NewStore()).Supposing(hit(allow)).Authorize(ctx, asks("list")); got != authorizer.DecisionDeny {
		t.Errorf("a deny, and an allow that is supposed: %v", got)
	}
	tier, ok := NewPolicyMaster(snapshot.NewStore()).Supposing(hit(named)).(opener)
	if !ok {
		t.Fatal("it is no tier")
	}
	empty := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: world(t, nil)})
	if _, set := tier.open(empty, asks("list"), lists{byName: true}); set == nil || len(set.allows) != 1 {
		t.Errorf("a rule that is limited to names: %+v", set)
	}
}

// SV-6: a deny is not explained by selectors that imply its condition, and an allow is.
func TestExplainedBySelectors(t *testing.T) {
	const good = `resource.metadata.labels["good"] == "yes"`
	list := asks("list")
	list.LabelSelectorRequirements = requirementsOf(t, "good=yes")
	for effect, want := range map[ruleset.Effect]expr.Truth{ruleset.Allows: expr.True, ruleset.Denies: expr.Unresolved} {
		var q ruleset.Query
		q.Reset(world(t, []policyv1alpha1.PolicyRule{{Deny: effect == ruleset.Denies, Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}, Where: good}}), list)
		if got := Explain(t.Context(), q.AppendAll(nil, ruleset.TierNamespace, effect)[0], list); got.Known != want {
			t.Errorf("%v: %v, want %v", effect, got.Known, want)
		}
	}
}

// RD-10: many names are found as few are.
func TestManyNamesAreFound(t *testing.T) {
	var rules []policyv1alpha1.PolicyRule
	for i := range 60 {
		rules = append(rules, readRule("configmaps", "", "", fmt.Sprintf("n%02d", 99-i)))
	}
	w := newUnionWorld(t, compilerOf(t)).policy("master", rules...)
	n := w.gate.Decide(w.at(w.snapshot()), listOf("configmaps")).Pass.Narrowing()
	for i := range 60 {
		if shown, known := n.Each.At("x", fmt.Sprintf("n%02d", 99-i)); !shown || !known {
			t.Errorf("n%02d: shown %v, known %v", 99-i, shown, known)
		}
	}
	if !slices.IsSorted(n.Rules) || len(n.Rules) != 60 {
		t.Errorf("by %d rules, in order %v", len(n.Rules), slices.IsSorted(n.Rules))
	}
}

// RD-10: a rule that selectors would not say exactly is asked of each object, if that can be asked; a list of which no
// rule can be asked in its version is refused.
func TestSelectorsThatLeaveOut(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"cars.example.com"}, Where: `resource.spec.color in ["", "blue"]`}
	list := asks("list")
	list.APIGroup, list.Resource = "example.com", "cars"
	snap := rulesIn(t, rule)
	snap.Served = snapshot.Sources{Selectable: snapshot.SelectableFields([]*apiextensions.CustomResourceDefinition{cars(apiextensions.NoneConverter)})}.Served()
	for name, reading := range map[string]Reads{"asked": anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}, "by selectors only": ReadsFunc(func(authorizer.Attributes) error { return nil })} {
		gate := readsGate(t)
		gate.reading = reading
		n, err := gate.NarrowFor(t.Context(), snap, list)
		if asked := name == "asked"; err != nil || (n.Each != nil) != asked || (n.Box.String() == "no selector") != asked {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	widgets := asks("list")
	widgets.APIGroup, widgets.Resource = "example.com", "widgets"
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(t), Kinds: differingServed().Kinds(), PolicyBindings: []*policyv1alpha1.PolicyBinding{bindingIn("hammer")},
		Policies: []*policyv1alpha1.Policy{policyIn("hammer", policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"widgets.example.com"}, Where: `resource.spec.color == "red"`})}})
	gate := readsGate(t)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	for version, fails := range map[string]bool{"v1": true, "v2": false} {
		widgets.APIVersion = version
		if n, err := gate.NarrowFor(t.Context(), &snapshot.Snapshot{Rules: ix, Served: differingServed()}, widgets); (err != nil) != fails || (n == nil) != fails {
			t.Errorf("%s: %+v, %v", version, n, err)
		}
	}
}
