package authzwebhook

import (
	"encoding/json"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
)

// FuzzAnswer: whatever the webhook says, only a plain allow allows, every deny denies, and conditions never lose a deny
// (CA-1, CA-17).
func FuzzAnswer(f *testing.F) {
	allow, deny := cond("a", reviewv1.EffectAllow, expr.TypeCEL, isDev), cond("d", reviewv1.EffectDeny, opaque, "x")
	for _, seed := range []string{
		`{}`, `{"allowed":true}`, `{"denied":true}`, chainOf("", allow), chainOf("NoOpinion", deny, allow), `{"conditionsChain":[{},{}]}`,
		`{"conditionsChain":[{"allowed":true,"denied":true}]}`, `{"allowed":true,"conditionalDecision":{"type":"Allow"}}`,
		`{"conditionalDecision":{"type":"Union","union":[{"decision":{"type":"Deny"}}]}}`,
		`{"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"e.com/d"}]}}}`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, open bool) {
		var status reviewv1.SubjectAccessReviewStatus
		if json.Unmarshal([]byte(text), &status) != nil {
			return
		}
		w := &Webhook{name: "hook", failOpen: open, conditions: &client{}}
		d := w.decisionOf(&status, create())
		conditional := len(status.ConditionsChain) > 0 || status.ConditionalDecision != nil
		if want := status.Allowed && !status.Denied && !conditional; d.IsAllow() != want {
			t.Errorf("%s: allows %v, want %v", text, d.IsAllow(), want)
		}
		if status.Denied && !d.IsDeny() {
			t.Errorf("%s: got %s, want Deny", text, d)
		}
		if d.IsUnion() {
			t.Errorf("%s: got %s", text, d)
		}
		if status.Allowed || status.Denied {
			return // contradictions are the failure policy's
		}
		for _, set := range status.ConditionsChain {
			if canDeny(&set) && !set.Allowed && d.FailureDecision() != authorizer.DecisionDeny {
				t.Errorf("%s: got %s, a deny is lost", text, d)
			}
		}
	})
}
