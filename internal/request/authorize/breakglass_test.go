package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TM-13: a grant by break-glass counts only for requests that have an audit event, because its sinks get all of them.
// An approved grant counts for others, too.
func TestBreakGlassNeedsAnEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		glass, event bool
		want         authorizer.Decision
	}{
		"by break-glass, with an event":    {true, true, authorizer.DecisionAllow},
		"by break-glass, without an event": {true, false, authorizer.DecisionNoOpinion},
		"approved, with an event":          {false, true, authorizer.DecisionAllow},
		"approved, without an event":       {false, false, authorizer.DecisionAllow},
	} {
		w := newUnionWorld(t, compilerOf(t)).grant("a", readMaps)
		w.rules[0].Spec.BreakGlass = tc.glass
		ctx := audit.WithAuditContext(w.at(w.snapshot()))
		if tc.event {
			ctx = loud(t, ctx)
		}
		if got, _, err := w.gate.Chain.Authorize(ctx, inA("get")); got != tc.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tc.want)
		}
		if got := w.gate.Chain.Granted(ctx, inA("get")); (len(got) > 0) != (tc.want == authorizer.DecisionAllow) {
			t.Errorf("%s: %d grants", name, len(got))
		}
	}
}
