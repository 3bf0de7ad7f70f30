package reviewserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// scripted decides as it is told. A condition is met, not met or fails as its text says.
type scripted struct{ decision Decision }

func (s scripted) Decide(context.Context, *reviewv1.SubjectAccessReviewSpec) (Decision, error) {
	if s.decision.reason == "broken" {
		return Decision{}, errors.New("broken")
	}
	return s.decision, nil
}

func (s scripted) Met(_ context.Context, e *Evaluation) (bool, error) {
	for range 20 {
		e.Warn("look out")
		e.Annotate(strings.Repeat("k", len(e.Condition.ID)), "v")
	}
	e.Warn(strings.Repeat("w", MaxWarning+1))
	switch e.Condition.Condition {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, errors.New("no idea")
}

func post(t *testing.T, a Authorizer, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(a).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func one(effect reviewv1.ConditionEffect, text string) reviewv1.SubjectAccessReviewCondition {
	return reviewv1.SubjectAccessReviewCondition{ID: "e.com/" + string(effect) + strings.Trim(text, "?"), Effect: effect, Type: "e.com/t", Condition: text, Description: "in words"}
}

// CA-27: a decision is said in the dialect of the question, and to a caller that knows no conditions it never allows.
func TestDecisions(t *testing.T) {
	allow, deny := one(reviewv1.EffectAllow, "yes"), one(reviewv1.EffectDeny, "no")
	nameless := allow
	nameless.ID = "a b"
	for _, tc := range []struct {
		name     string
		decision Decision
		question string // of spec, besides the attributes
		want     string // in status
	}{
		{"the zero value", Decision{}, ``, `"allowed":false,"denied":true`},
		{"allow", Allow("fine"), ``, `"allowed":true,"reason":"fine"`},
		{"deny", Deny("no"), ``, `"allowed":false,"denied":true,"reason":"no"`},
		{"no opinion", NoOpinion(""), ``, `"status":{"allowed":false}`},
		{"a chain", Under(allow), `,"conditionalAuthorization":{"mode":"HumanReadable"}`,
			`"status":{"allowed":false,"conditionsChain":[{"failureMode":"Deny","conditions":[{"id":"e.com/Allowyes","effect":"Allow","type":"e.com/t","condition":"yes","description":"in words"}]}]}`},
		{"without descriptions", Under(allow), `,"conditionalAuthorization":{"mode":"Optimized"}`, `"condition":"yes"}]}]}`},
		{"a tree", Under(deny, allow), `,"authorizationOptions":{"handledDecisionTypes":["ConditionsMap","Union"]}`,
			`"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"e.com/Denyno"`},
		{"not asked for", Under(allow), ``, `"allowed":false,"reason":"the answer depends on conditions`},
		{"not asked for, can deny", Under(deny, allow), ``, `"allowed":false,"denied":true`},
		{"not asked for, fails open", UnderWith(reviewv1.FailureModeNoOpinion, deny, allow), ``, `"allowed":false,"reason"`},
		{"malformed", Under(nameless), `,"conditionalAuthorization":{"mode":"HumanReadable"}`, `"allowed":false,"reason":"the conditions are malformed`},
		{"malformed, can deny", Under(nameless, deny), `,"conditionalAuthorization":{"mode":"HumanReadable"}`, `"denied":true`},
		{"no conditions", Under(), `,"conditionalAuthorization":{"mode":"HumanReadable"}`, `"allowed":false,"reason":"the conditions are malformed`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, got := post(t, scripted{tc.decision}, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{},"later":1,`+
				`"spec":{"user":"u","resourceAttributes":{"verb":"create","resource":"pods"}`+tc.question+`}}`)
			if code != http.StatusOK || !strings.Contains(got, tc.want) || strings.Count(got, `"allowed":true`) != strings.Count(tc.want, `"allowed":true`) {
				t.Errorf("got %d %s, want %s", code, got, tc.want)
			}
		})
	}
}

// CA-27, CA-2: a set is evaluated in the order that the API server keeps.
func TestConditionsReviews(t *testing.T) {
	const yes, no, fails = "yes", "no", "?"
	for _, tc := range []struct {
		name                   string
		deny, noOpinion, allow string
		mode                   reviewv1.FailureMode
		allowed, denied, fault bool
	}{
		{name: "allowed", deny: no, noOpinion: no, allow: yes, allowed: true},
		{name: "denied", deny: yes, noOpinion: yes, allow: yes, denied: true},
		{name: "held", deny: no, noOpinion: yes, allow: yes},
		{name: "held by an error", deny: no, noOpinion: fails, allow: yes},
		{name: "not met", deny: no, noOpinion: no, allow: no},
		{name: "an allow that fails", deny: no, noOpinion: no, allow: fails},
		{name: "a deny that fails", deny: fails, noOpinion: no, allow: yes, denied: true, fault: true},
		{name: "a deny that fails open", deny: fails, noOpinion: no, allow: yes, mode: reviewv1.FailureModeNoOpinion, fault: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := reviewv1.SubjectAccessReviewConditionSet{FailureMode: tc.mode, Conditions: []reviewv1.SubjectAccessReviewCondition{
				one(reviewv1.EffectAllow, tc.allow), one(reviewv1.EffectNoOpinion, tc.noOpinion), one(reviewv1.EffectDeny, tc.deny),
			}}
			review := reviewv1alpha1.AuthorizationConditionsReview{Request: &reviewv1alpha1.AuthorizationConditionsRequest{Operation: reviewv1alpha1.Create, ConditionSet: set}}
			review.APIVersion, review.Kind = "authorization.k8s.io/v1alpha1", "AuthorizationConditionsReview"
			body, err := json.Marshal(review)
			if err != nil {
				t.Fatal(err)
			}
			code, text := post(t, scripted{}, string(body))
			var got reviewv1alpha1.AuthorizationConditionsReview
			if err := json.Unmarshal([]byte(text), &got); code != http.StatusOK || err != nil || got.Response == nil {
				t.Fatalf("%d %s: %v", code, text, err)
			}
			r := got.Response
			if r.Allowed != tc.allowed || r.Denied != tc.denied || (r.EvaluationError != "") != tc.fault {
				t.Errorf("got %+v", r)
			}
			if said := strings.Contains(text, "no idea"); said != (strings.Contains(tc.name, "fails") || strings.Contains(tc.name, "error")) {
				t.Errorf("what failed is said: %v in %s", said, text)
			}
			if len(r.Warnings) != MaxWarnings || len(r.AuditAnnotations) == 0 {
				t.Errorf("got %d warnings, %d annotations", len(r.Warnings), len(r.AuditAnnotations))
			}
		})
	}
}

// CA-27: what is not understood is refused, so that the failure policy of the API server decides.
func TestBadReviews(t *testing.T) {
	const sar, conditions = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",`, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview",`
	for body, want := range map[string]int{
		`nonsense`: 400, `{}`: 400, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview"}`: 400,
		sar + `"spec":{}}`: 400,
		sar + `"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`: 400,
		sar + `"spec":{"user":1}}`:                  400,
		conditions + `"response":{"allowed":true}}`: 400,
		conditions + `"request":{"operation":"CREATE","conditionSet":{"conditions":[{"id":"a","effect":"Allow","condition":"yes","unlessLater":"x"}]}}}`: 400,
		sar + `"spec":{"resourceAttributes":{}}}`: 500,
	} {
		if code, text := post(t, scripted{Decision{reason: "broken"}}, body); code != want || strings.Contains(text, `"allowed":true`) {
			t.Errorf("%s: got %d %s, want %d", body, code, text, want)
		}
	}
	w := httptest.NewRecorder()
	Handler(scripted{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: got %d", w.Code)
	}
}
