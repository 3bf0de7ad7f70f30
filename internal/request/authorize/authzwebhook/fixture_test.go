package authzwebhook

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

const opaque = "example.com/opaque"

// fixture is one webhook with paths of its own in the other process.
type fixture struct {
	*Webhook
	t                   testing.TB
	server              *process
	reviews, conditions string
}

var fixtures atomic.Int64

var compilerOnce = sync.OnceValues(func() (*expr.Compiler, error) { return expr.New(expr.Config{}) })

func newFixture(t testing.TB, configure ...func(*Config)) *fixture {
	t.Helper()
	return fixtureAt(t, child(t), configure...)
}

func fixtureAt(t testing.TB, server *process, configure ...func(*Config)) *fixture {
	t.Helper()
	compiler, err := compilerOnce()
	if err != nil {
		t.Fatal(err)
	}
	n := fixtures.Add(1)
	f := &fixture{t: t, server: server, reviews: fmt.Sprintf("/reviews/%d", n), conditions: fmt.Sprintf("/conditions/%d", n)}
	cfg := Config{
		Name: "hook", Reviews: server.at(f.reviews), Conditions: server.at(f.conditions), Version: "v1",
		Backoff:  wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2},
		Compiler: authorizationcel.NewDefaultCompiler(), CEL: authorize.NewCELConditions(compiler),
	}
	for _, c := range configure {
		c(&cfg)
	}
	if f.Webhook, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

func failOpen(c *Config) { c.FailOpen = true }

func cached(c *Config) { c.AuthorizedTTL, c.UnauthorizedTTL = time.Hour, time.Hour }

// impatient gives up on a webhook that never answers.
func impatient(c *Config) {
	c.Reviews.Timeout, c.Conditions.Timeout = 300*time.Millisecond, 300*time.Millisecond
}

// answer has the webhook answer with a status.
func (f *fixture) answer(status string) {
	f.t.Helper()
	f.server.behave(f.t, f.reviews, script{Body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":` + status + `}`})
}

// resolve has the conditions endpoint answer.
func (f *fixture) resolve(response string) {
	f.t.Helper()
	f.server.behave(f.t, f.conditions, script{Body: `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":` + response + `}`})
}

// wantCalls checks how often each endpoint was called.
func (f *fixture) wantCalls(reviews, conditions int) {
	f.t.Helper()
	if got := len(f.server.calls(f.t, f.reviews)); got != reviews {
		f.t.Errorf("the webhook was asked %d times for a review, want %d", got, reviews)
	}
	if got := len(f.server.calls(f.t, f.conditions)); got != conditions {
		f.t.Errorf("the webhook was asked %d times for its conditions, want %d", got, conditions)
	}
}

func (f *fixture) conditionsCall() *reviewv1alpha1.AuthorizationConditionsReview {
	f.t.Helper()
	calls := f.server.calls(f.t, f.conditions)
	if len(calls) != 1 {
		f.t.Fatalf("the webhook was asked %d times for its conditions, want once", len(calls))
	}
	review := &reviewv1alpha1.AuthorizationConditionsReview{}
	if err := json.Unmarshal([]byte(calls[0].Body), review); err != nil {
		f.t.Fatal(err)
	}
	return review
}

func cond(id string, effect reviewv1.ConditionEffect, kind, text string) reviewv1.SubjectAccessReviewCondition {
	return reviewv1.SubjectAccessReviewCondition{ID: "example.com/" + id, Effect: effect, Type: kind, Condition: text}
}

// chainOf is the status of an answer with one set.
func chainOf(mode reviewv1.FailureMode, conditions ...reviewv1.SubjectAccessReviewCondition) string {
	text, err := json.Marshal(map[string]any{"allowed": false, "conditionsChain": []any{
		reviewv1.SubjectAccessReviewConditionSet{FailureMode: mode, Conditions: conditions},
	}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// create is a request to create a config map, and what admission knows of it.
func create() authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "edgar", Groups: []string{"team-a"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "create", APIVersion: "v1", Resource: "configmaps", Namespace: "n", ResourceRequest: true,
	}
}

func createOf(env string) authorizer.ConditionsData {
	object := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}, Data: map[string]string{"env": env},
	}
	return admission.NewAttributesRecord(object, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "n", "c",
		corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, &metav1.CreateOptions{}, false, create().User)
}

func name(d authorizer.ConditionsAwareDecision) string {
	switch {
	case d.IsAllow():
		return "Allow"
	case d.IsDeny():
		return "Deny"
	case d.IsNoOpinion():
		return "NoOpinion"
	case d.IsConditionsMap():
		return "Conditions"
	}
	return "Union"
}

var finals = map[authorizer.Decision]string{
	authorizer.DecisionAllow: "Allow", authorizer.DecisionDeny: "Deny", authorizer.DecisionNoOpinion: "NoOpinion",
}
