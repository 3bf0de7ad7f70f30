package authorize

import (
	"runtime"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// BenchmarkConditional is both steps of a create under one condition, without the server around them.
func BenchmarkConditional(b *testing.B) {
	ctx := requestctx.With(b.Context(), &snapshot.Snapshot{Rules: world(b, []policyv1alpha1.PolicyRule{onlyGoodRule})})
	chain := tiers(b, snapshot.NewStore())
	var attrs authorizer.Attributes = asks("create")
	data := created("yes")
	b.Run("authorize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if chain.Decide(ctx, attrs).Pending == nil {
				b.Fatal("decided without the object")
			}
		}
	})
	pending := chain.Decide(ctx, attrs).Pending
	b.Run("enforce", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out := pending.Resolve(ctx, data); out.Decision != authorizer.DecisionAllow {
				b.Fatal(out)
			}
		}
	})
}

// admitted is an update as the enforcer hands it to conditions.
type admitted struct {
	admission.Attributes
	data    expr.Data
	objects expr.Static
}

func (a *admitted) Expr() *expr.Data { return &a.data }
func (a *admitted) Trusted() error   { return nil }

// BenchmarkScale is both steps of an update of a deployment whose number of replicas a condition limits, as
// bench/conditional.go measures them beside others.
func BenchmarkScale(b *testing.B) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		b.Fatal(err)
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "hammer", Name: name} }
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 10"}
	index := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds:    ruleset.NewKinds([]ruleset.Served{{Group: "apps", Resource: "deployments", Kind: "Deployment", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: named("default"), Roles: map[string]policyv1alpha1.PolicyRole{"scale": {Rules: []policyv1alpha1.PolicyRule{rule}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: named("hammer"),
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "scale", UserNames: []string{"edgar"}}}}}})
	ctx := requestctx.With(b.Context(), &snapshot.Snapshot{Rules: index})
	chain, err := NewChain(Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(snapshot.NewStore(), nil)})
	if err != nil {
		b.Fatal(err)
	}
	who := &user.DefaultInfo{Name: "edgar", Groups: []string{"system:authenticated", "developers", "team-hammer"}}
	var attrs authorizer.Attributes = &authorizer.AttributesRecord{User: who, Verb: "update", Namespace: "hammer",
		APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "web", ResourceRequest: true}
	scaled := func(replicas int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	}
	old, updated := scaled(1), scaled(3)
	record := admission.NewAttributesRecord(updated, old, appsv1.SchemeGroupVersion.WithKind("Deployment"), "hammer", "web",
		appsv1.SchemeGroupVersion.WithResource("deployments"), "", admission.Update, &metav1.UpdateOptions{}, false, who)
	facts := func() *admitted {
		a := &admitted{Attributes: record, objects: expr.Static{New: updated, Old: old}}
		a.data.Init(&expr.DataConfig{Operation: "UPDATE", OwnKind: true, Objects: &a.objects})
		return a
	}
	decided := chain.Decide(ctx, attrs).Pending
	var kept any
	for _, part := range []struct {
		name string
		run  func() authorizer.Decision
	}{
		{"both", func() authorizer.Decision { return chain.Decide(ctx, attrs).Pending.Resolve(ctx, facts()).Decision }},
		{"authorize", func() authorizer.Decision { kept = chain.Decide(ctx, attrs).Pending; return authorizer.DecisionAllow }},
		{"facts-and-enforce", func() authorizer.Decision { return decided.Resolve(ctx, facts()).Decision }},
		{"facts", func() authorizer.Decision { kept = facts(); return authorizer.DecisionAllow }},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if part.run() != authorizer.DecisionAllow {
					b.Fatal("not allowed")
				}
			}
		})
	}
	// At a request, other work has had the caches before each step.
	b.Run("cold", func(b *testing.B) {
		others := make([]byte, 64<<20)
		var took time.Duration
		n := 0
		for b.Loop() {
			for i := 0; i < len(others); i += 64 {
				others[i]++
			}
			began := time.Now()
			decision := chain.Decide(ctx, attrs).Pending.Resolve(ctx, facts()).Decision
			took += time.Since(began)
			n++
			if decision != authorizer.DecisionAllow {
				b.Fatal("not allowed")
			}
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/op")
	})
	runtime.KeepAlive(kept)
}
