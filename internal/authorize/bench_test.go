package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/snapshot"
)

// BenchmarkConditional is both steps of a create under one condition, without the server around them.
func BenchmarkConditional(b *testing.B) {
	ctx := handoff.With(b.Context(), &snapshot.Snapshot{Rules: world(b, []policyv1alpha1.PolicyRule{onlyGoodRule})})
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
