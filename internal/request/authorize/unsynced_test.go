package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// SV-8, OP-6: before the policy is known, and while it is too old, everything but health is denied; in between there is
// no opinion.
type aged string

func (a aged) Stale() string { return string(a) }

func TestUnsynced(t *testing.T) {
	somebody := &user.DefaultInfo{Name: "kim"}
	pods := authorizer.AttributesRecord{User: somebody, Verb: "list", Resource: "pods", ResourceRequest: true}
	health := authorizer.AttributesRecord{User: somebody, Verb: "get", Path: "/readyz"}
	for _, tc := range []struct {
		name   string
		synced bool
		age    Age
		want   authorizer.Decision
		reason string
	}{
		{"not synced", false, Ageless{}, authorizer.DecisionDeny, "the server has not read its policy yet: try again in a moment"},
		{"synced", true, Ageless{}, authorizer.DecisionNoOpinion, ""},
		{"fresh", true, aged(""), authorizer.DecisionNoOpinion, ""},
		{"stale", true, aged("too old"), authorizer.DecisionDeny, "too old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Synced: tc.synced})
			u := Unsynced{Age: tc.age}
			if got, reason, err := u.Authorize(ctx, pods); got != tc.want || reason != tc.reason || err != nil {
				t.Errorf("pods: %v %q %v", got, reason, err)
			}
			wantHealth := authorizer.DecisionAllow
			if tc.want == authorizer.DecisionNoOpinion {
				wantHealth = authorizer.DecisionNoOpinion
			}
			if got, _, _ := u.Authorize(ctx, health); got != wantHealth {
				t.Errorf("health: %v, want %v", got, wantHealth)
			}
		})
	}
}
