package authorize

import (
	"context"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/requestctx"
)

// failures is the metric, summed over its labels.
func failures(t *testing.T) (sum float64) {
	t.Helper()
	RegisterMetrics()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "proviso_authorization_condition_failures_total" {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// audited is the context of a request whose audit event is kept.
func audited(t *testing.T, ctx context.Context, r authorizer.AttributesRecord) context.Context {
	t.Helper()
	ctx = audit.WithAuditContext(request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Path: r.Path, Verb: r.Verb,
		APIVersion: r.APIVersion, Namespace: r.Namespace, Resource: r.Resource, Name: r.Name}))
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// CA-2, CA-10, CA-21: a condition that fails for every object fails closed in the filter, as a 403 and no 500; audit
// and metrics say so; nobody is told what the expression is.
func TestFailureBeforeTheObject(t *testing.T) {
	const secret = `request.extra["clearance"][0] == "top"`
	everything := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}}
	for name, tt := range map[string]struct {
		rule       policyv1alpha1.PolicyRule
		want       authorizer.Decision
		wantFailed bool
	}{
		"a deny that fails":    {policyv1alpha1.PolicyRule{Deny: true, When: secret}, authorizer.DecisionDeny, true},
		"a where that matches": {policyv1alpha1.PolicyRule{Deny: true, Where: secret}, authorizer.DecisionDeny, true},
		"an allow that fails":  {policyv1alpha1.PolicyRule{When: secret}, authorizer.DecisionNoOpinion, true},
		"a deny that is false": {policyv1alpha1.PolicyRule{Deny: true, When: `request.user == "eve"`}, authorizer.DecisionAllow, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.rule.Verbs, tt.rule.ResourceKinds = []string{"create"}, []string{"configmaps"}
			rules := []policyv1alpha1.PolicyRule{tt.rule}
			if tt.rule.Deny {
				rules = append(rules, everything)
			}
			store := storeWith(t, &published{index: world(t, rules)})
			r := asks("create")
			r.Path = "/api/v1/namespaces/hammer/configmaps"
			ctx := audited(t, requestctx.With(t.Context(), store.Current()), r)
			before := failures(t)
			got, reason, err := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Local: LocalFunc(func(string, string) bool { return true })}).AtFilter().Authorize(ctx, r)
			if got != tt.want || err != nil {
				t.Errorf("got %s (%s, %v), want %s and no error", got, reason, err, tt.want)
			}
			if counted := failures(t) > before; counted != tt.wantFailed {
				t.Errorf("failure counted: %v, want %v", counted, tt.wantFailed)
			}
			// DA-15: a refusal says in audit which it was; upstream's annotation cannot.
			outcome, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationOutcome)
			if want := Spell(tt.want); (tt.want == authorizer.DecisionAllow) != (outcome == "") || outcome != "" && outcome != want {
				t.Errorf("the outcome in audit is %q, want %s", outcome, want)
			}
			said, ok := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationFailure)
			if ok != tt.wantFailed || ok && !strings.Contains(said, `condition "policy.proviso.dev/r-`) {
				t.Errorf("audit says %q", said)
			}
			for what, text := range map[string]string{"the caller": reason, "audit": said} {
				if strings.Contains(text, "clearance") || strings.Contains(text, "extra") {
					t.Errorf("%s is told the expression: %s", what, text)
				}
			}
		})
	}
}

// CA-2, CA-10: the same when the object makes it fail. The where of a deny that fails is a match and no error: that is
// said too.
func TestFailureWithTheObject(t *testing.T) {
	everything := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}}
	for name, tt := range map[string]struct {
		rules      []policyv1alpha1.PolicyRule
		want       authorizer.Decision
		wantDetail bool
	}{
		"when of a deny":   {[]policyv1alpha1.PolicyRule{{Deny: true, When: `object.metadata.labels["clearance"] == "top"`}, everything}, authorizer.DecisionDeny, true},
		"where of a deny":  {[]policyv1alpha1.PolicyRule{{Deny: true, Where: `resource.metadata.labels["clearance"] == "top"`}, everything}, authorizer.DecisionDeny, true},
		"when of an allow": {[]policyv1alpha1.PolicyRule{{When: `object.metadata.labels["clearance"] == "top"`}}, authorizer.DecisionNoOpinion, true},
		"a deny that is not met": {[]policyv1alpha1.PolicyRule{{Deny: true, When: `object.metadata.labels["good"] == "no"`}, everything},
			authorizer.DecisionAllow, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.rules[0].Verbs, tt.rules[0].ResourceKinds = []string{"create"}, []string{"configmaps"}
			store := storeWith(t, &published{index: world(t, tt.rules)})
			ctx := requestctx.With(t.Context(), store.Current())
			v := tiers(t, store).Decide(ctx, asks("create"))
			if v.Pending == nil {
				t.Fatalf("decided without the object: %+v", v)
			}
			before := failures(t)
			data := created("yes")
			out := Enforce(ctx, v.Pending, &factsFor{ConditionsData: data, data: FactsOf(t.Context(), data)})
			if out.Decision != tt.want || (out.Detail != nil) != tt.wantDetail {
				t.Errorf("got %s, %v; want %s, a failure %v", out.Decision, out.Detail, tt.want, tt.wantDetail)
			}
			if counted := failures(t) > before; counted != tt.wantDetail {
				t.Errorf("failure counted: %v, want %v", counted, tt.wantDetail)
			}
			if out.Detail != nil && strings.Contains(out.Detail.Error()+out.Reason, "clearance") {
				t.Errorf("the expression is told: %v, %s", out.Detail, out.Reason)
			}
		})
	}
}
