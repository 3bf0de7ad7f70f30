package accessreview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// shownOnly is a view of the conditions whose IDs begin with "seen".
type shownOnly struct{}

func (shownOnly) Whole() bool          { return false }
func (shownOnly) Shows(id string) bool { return strings.HasPrefix(id, "seen") }

// NI-1, CA-24: an answer is the same however many conditions there are that the caller may not see, whatever their
// roles are called and whatever they say. It still says that there is one, for each effect, and shows the others.
func TestUnseenConditionsAreOne(t *testing.T) {
	answer := func(unseen int) *reviewv1.SubjectAccessReviewStatus {
		var list []reviewv1.SubjectAccessReviewCondition
		var conditions reviewv1.ConditionsMap
		add := func(id string) {
			for _, part := range []*[]reviewv1.Condition{&conditions.DenyConditions, &conditions.NoOpinionConditions, &conditions.AllowConditions} {
				*part = append(*part, reviewv1.Condition{ID: id, Type: "type of " + id, Condition: "text of " + id, Description: "words of " + id})
			}
			for _, effect := range []reviewv1.ConditionEffect{reviewv1.EffectDeny, reviewv1.EffectNoOpinion, reviewv1.EffectAllow} {
				list = append(list, reviewv1.SubjectAccessReviewCondition{ID: id, Effect: effect, Type: "type of " + id, Condition: "text of " + id})
			}
		}
		for i := range unseen {
			add(fmt.Sprintf("secret-%d-of-%d", i, unseen))
		}
		add("seen-1")
		leaf := reviewv1.UnconditionalDecision{Reason: fmt.Sprintf("secret reason of %d", unseen)}
		return &reviewv1.SubjectAccessReviewStatus{
			SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{Reason: fmt.Sprintf("secret of %d", unseen)},
			ConditionsChain:           []reviewv1.SubjectAccessReviewConditionSet{{AuthorizerName: "policy-namespace", Reason: "secret", Conditions: list}},
			ConditionalDecision: &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionUnion, Union: []reviewv1.NamedConditionsAwareDecision{
				{AuthorizerName: "a", Decision: reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionConditionsMap, ConditionsMap: &conditions}},
				{AuthorizerName: "b", Decision: reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionAllow, Allow: &leaf}},
			}},
		}
	}
	told := func(unseen int) string {
		status := answer(unseen)
		withhold(status, shownOnly{})
		text, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := told(1)
	for _, unseen := range []int{2, 7} {
		if many := told(unseen); many != one {
			t.Errorf("with %d conditions that are not seen: %s\nwith one: %s", unseen, many, one)
		}
	}
	if strings.Contains(one, "secret") || strings.Count(one, "not-shown-deny") != 2 || strings.Count(one, "not-shown-allow") != 2 ||
		strings.Count(one, "not-shown-noopinion") != 2 || strings.Count(one, "text of seen-1") != 6 || strings.Count(one, unseenCondition) != 6 {
		t.Errorf("shown is %s", one)
	}
	if none := told(0); strings.Contains(none, "not-shown") || !strings.Contains(none, "reason of 0") {
		t.Errorf("nothing is hidden, and shown is %s", none)
	}
}
