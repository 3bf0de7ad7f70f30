package authzwebhook

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

// final asks and evaluates as the chain does, failure mode of the link included.
func (f *fixture) final(env string) string {
	f.t.Helper()
	chain, err := authorize.NewChain(authorize.Link{Name: "hook", Authorizer: f.Webhook, FailOpen: f.failOpen})
	if err != nil {
		f.t.Fatal(err)
	}
	v := chain.Decide(f.t.Context(), create())
	if v.Pending != nil {
		return finals[v.Pending.Resolve(f.t.Context(), createOf(env)).Decision]
	}
	if v.Decision != authorizer.DecisionNoOpinion {
		return finals[v.Decision]
	}
	// The chain refuses at once what can only deny. Evaluate it all the same.
	d := f.ConditionsAwareAuthorize(f.t.Context(), create())
	if d.IsUnconditional() {
		return name(d)
	}
	decision, _, err := f.EvaluateConditions(f.t.Context(), d, createOf(env))
	if decision == authorizer.DecisionDeny && err != nil && f.failOpen {
		decision = authorizer.DecisionNoOpinion
	}
	return finals[decision]
}

// CA-17: the table of calls. Cached and of the built-in type means no call at all.
func TestCalls(t *testing.T) {
	for _, tc := range []struct {
		name                string
		configure           func(*Config)
		kind, text          string
		reviews, conditions int // calls for three requests
	}{
		{"opaque, not cached", func(*Config) {}, opaque, "dev", 3, 3},
		{"opaque, cached", cached, opaque, "dev", 1, 3},
		{"built in, not cached", func(*Config) {}, expr.TypeCEL, isDev, 3, 0},
		{"built in, cached", cached, expr.TypeCEL, isDev, 1, 0},
		{"built in, but only the webhook can compile it", cached, expr.TypeCEL, "object.data.env ==> 'dev'", 1, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.configure)
			f.answer(chainOf("", cond("a", reviewv1.EffectAllow, tc.kind, tc.text)))
			f.resolve(`{"allowed":true}`)
			for range 3 {
				if got := f.final("dev"); got != "Allow" {
					t.Errorf("got %s, want Allow", got)
				}
			}
			f.wantCalls(tc.reviews, tc.conditions)
			f.resolve(`{"allowed":false}`)
			if got := f.final("prod"); got != "NoOpinion" {
				t.Errorf("a condition that is not met: got %s, want NoOpinion", got)
			}
		})
	}
}

// CA-17: conditions have the TTL of unauthorized answers.
func TestConditionsHaveTheUnauthorizedTTL(t *testing.T) {
	for want, configure := range map[int]func(*Config){
		2: func(c *Config) { cached(c); c.UnauthorizedTTL = 0 },
		1: func(c *Config) { cached(c); c.AuthorizedTTL = 0 },
	} {
		f := newFixture(t, configure)
		f.answer(chainOf("", cond("a", reviewv1.EffectAllow, expr.TypeCEL, isDev)))
		for range 2 {
			f.ConditionsAwareAuthorize(t.Context(), create())
		}
		f.wantCalls(want, 0)
	}
}

// CA-15: what the conditions endpoint is asked.
func TestConditionsQuestion(t *testing.T) {
	f := newFixture(t)
	c := cond("a", reviewv1.EffectAllow, opaque, "dev")
	c.Description = "only dev"
	f.answer(chainOf("NoOpinion", c))
	f.resolve(`{"allowed":true,"reason":"dev is fine"}`)
	d := f.ConditionsAwareAuthorize(t.Context(), create())
	decision, reason, err := f.EvaluateConditions(t.Context(), d, createOf("dev"))
	if decision != authorizer.DecisionAllow || reason != "dev is fine" || err != nil {
		t.Errorf("got %s, %q, %v", finals[decision], reason, err)
	}
	r := f.conditionsCall()
	if r.Kind != "AuthorizationConditionsReview" || r.APIVersion != "authorization.k8s.io/v1alpha1" || r.Request == nil {
		t.Fatalf("got %+v", r)
	}
	set := reviewv1.SubjectAccessReviewConditionSet{AuthorizerName: "hook", FailureMode: "NoOpinion", Conditions: []reviewv1.SubjectAccessReviewCondition{c}}
	if got, want := fmt.Sprintf("%+v", r.Request.ConditionSet), fmt.Sprintf("%+v", set); got != want {
		t.Errorf("set: got %s, want %s", got, want)
	}
	if r.Request.Operation != reviewv1alpha1.Create || !strings.Contains(string(r.Request.Object.Raw), `"data":{"env":"dev"}`) || r.Request.OldObject.Raw != nil {
		t.Errorf("got %+v", r.Request)
	}
}

// CA-15, CA-17: the answer of the conditions endpoint is believed only if the set could have produced it; without an
// answer a set with denies follows the failure mode, and any other has no opinion.
func TestConditionsAnswers(t *testing.T) {
	const kind = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview",`
	say := func(response string) script { return script{Body: kind + `"response":` + response + `}`} }
	allow, deny := cond("a", reviewv1.EffectAllow, opaque, "x"), cond("d", reviewv1.EffectDeny, opaque, "x")
	for _, tc := range []struct {
		name   string
		script script
		// the final decision of a set of an allow, of a deny, and of both, then of both when failing open
		allow, deny, both, open string
	}{
		{"allow", say(`{"allowed":true}`), "Allow", "Deny", "Allow", "Allow"},
		{"deny", say(`{"denied":true}`), "NoOpinion", "Deny", "Deny", "Deny"},
		{"deny by an error", say(`{"denied":true,"evaluationError":"boom"}`), "NoOpinion", "Deny", "Deny", "Deny"},
		{"no opinion", say(`{"allowed":false}`), "NoOpinion", "NoOpinion", "NoOpinion", "NoOpinion"},
		{"allow and deny", say(`{"allowed":true,"denied":true}`), "NoOpinion", "Deny", "Deny", "Deny"},
		{"an error", say(`{"allowed":false,"evaluationError":"boom"}`), "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"allow and an error", say(`{"allowed":true,"evaluationError":"boom"}`), "Allow", "Deny", "Deny", "NoOpinion"},
		{"no response", script{Body: kind + `"request":null}`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"empty object", script{Body: `{}`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"empty", script{}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"nonsense", script{Body: `allowed: true`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"another kind", script{Body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"oversized", script{Body: kind + `"response":{"allowed":true,"reason":"`, Fill: maxResponse, Tail: `"}}`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"status 500", script{Status: 500, Body: kind + `"response":{"allowed":true}}`}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"drops", script{Drop: true}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
		{"slow", script{Hang: true}, "NoOpinion", "Deny", "Deny", "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check := func(what, want string, configure func(*Config), mode reviewv1.FailureMode, conditions ...reviewv1.SubjectAccessReviewCondition) {
				t.Helper()
				f := newFixture(t, configure, func(c *Config) {
					if tc.script.Hang { // give up on what never answers, and wait for what does
						c.Conditions.Timeout = 300 * time.Millisecond
					}
				})
				f.answer(chainOf(mode, conditions...))
				f.server.behave(t, f.conditions, tc.script)
				if got := f.final("dev"); got != want {
					t.Errorf("%s: got %s, want %s", what, got, want)
				}
			}
			stock := func(*Config) {}
			check("allow set", tc.allow, stock, "", allow)
			check("allow set of a webhook that fails open", tc.allow, failOpen, "", allow)
			check("deny set", tc.deny, stock, "", deny)
			check("both", tc.both, stock, "", deny, allow)
			check("both, webhook fails open", tc.open, failOpen, "", deny, allow)
			check("both, set fails open", tc.open, stock, reviewv1.FailureModeNoOpinion, deny, allow)
			check("both, webhook fails open but the set does not", tc.both, failOpen, reviewv1.FailureModeDeny, deny, allow)
		})
	}
}

// CA-15: a lie fails closed in the authorizer itself, not only in the chain, and whatever the failure mode.
func TestLies(t *testing.T) {
	allow, deny := cond("a", reviewv1.EffectAllow, opaque, "x"), cond("d", reviewv1.EffectDeny, opaque, "x")
	for _, tc := range []struct {
		c              reviewv1.SubjectAccessReviewCondition
		response, want string
	}{
		{allow, `{"denied":true}`, "NoOpinion"},
		{allow, `{"allowed":true}`, "Allow"},
		{deny, `{"allowed":true}`, "Deny"},
		{deny, `{"allowed":false}`, "NoOpinion"},
	} {
		for _, policy := range []func(*Config){func(*Config) {}, failOpen} {
			f := newFixture(t, policy)
			f.answer(chainOf("", tc.c))
			f.resolve(tc.response)
			d := f.ConditionsAwareAuthorize(t.Context(), create())
			got, _, err := f.EvaluateConditions(t.Context(), d, createOf("dev"))
			if finals[got] != tc.want {
				t.Errorf("%s %s, fail open %v: got %s, %v, want %s", tc.c.Effect, tc.response, f.failOpen, finals[got], err, tc.want)
			}
		}
	}
}

// CA-15: what is known in process is not overruled by an endpoint that allows.
func TestEndpointCannotOverruleTheProcess(t *testing.T) {
	const fails, holds, not = "object.data.missing == 'x'", "object.data.env == 'dev'", "object.data.env == 'prod'"
	allow, deny := cond("a", reviewv1.EffectAllow, opaque, "x"), cond("d", reviewv1.EffectDeny, opaque, "x")
	for _, tc := range []struct {
		effect                   reviewv1.ConditionEffect
		text, want, wantFailOpen string
	}{
		{reviewv1.EffectDeny, not, "Allow", "Allow"},
		{reviewv1.EffectDeny, holds, "Deny", "Deny"},
		{reviewv1.EffectDeny, fails, "Deny", "NoOpinion"},
		{reviewv1.EffectNoOpinion, not, "Allow", "Allow"},
		{reviewv1.EffectNoOpinion, holds, "NoOpinion", "NoOpinion"},
		{reviewv1.EffectNoOpinion, fails, "NoOpinion", "NoOpinion"},
	} {
		for want, policy := range map[string]func(*Config){"1" + tc.want: func(*Config) {}, "2" + tc.wantFailOpen: failOpen} {
			f := newFixture(t, policy)
			f.answer(chainOf("", deny, cond("l", tc.effect, expr.TypeCEL, tc.text), allow))
			f.resolve(`{"allowed":true}`)
			if got := f.final("dev"); got != want[1:] {
				t.Errorf("%s %s, fail open %v: got %s, want %s", tc.effect, tc.text, f.failOpen, got, want[1:])
			}
		}
	}
}

// CA-2: for random sets, partly of the built-in type and partly not, with an honest webhook, the decision is that of
// evaluating all conditions at one place.
func TestMixedSetsLaw(t *testing.T) {
	texts := map[string]string{"true": isDev, "false": "object.data.env != 'dev'", "error": "object.data.missing == 'x'"}
	results := []string{"true", "false", "error"}
	effects := []reviewv1.ConditionEffect{reviewv1.EffectDeny, reviewv1.EffectNoOpinion, reviewv1.EffectAllow}
	random := rand.New(rand.NewPCG(17, 2))
	seen := map[string]int{}
	for range 400 {
		var conditions []reviewv1.SubjectAccessReviewCondition
		came := map[reviewv1.ConditionEffect]map[string]bool{}
		for i := range 1 + random.IntN(4) {
			effect, result := effects[random.IntN(3)], results[random.IntN(3)]
			kind := expr.TypeCEL
			if random.IntN(2) == 0 {
				kind = opaque
			}
			conditions = append(conditions, cond(fmt.Sprint(i), effect, kind, texts[result]))
			if came[effect] == nil {
				came[effect] = map[string]bool{}
			}
			came[effect][result] = true
		}
		open := random.IntN(2) == 0
		want, failed := "NoOpinion", false
		switch o := came; {
		case o["Deny"]["true"]:
			want = "Deny"
		case o["Deny"]["error"] && open:
			failed = true
		case o["Deny"]["error"]:
			want, failed = "Deny", true
		case o["NoOpinion"]["true"], o["NoOpinion"]["error"]:
		case o["Allow"]["true"]:
			want = "Allow"
		}
		f := newFixture(t, func(c *Config) { c.FailOpen = open })
		f.answer(chainOf("", conditions...))
		response := reviewv1alpha1.AuthorizationConditionsResponse{Allowed: want == "Allow", Denied: want == "Deny"}
		if failed {
			response.EvaluationError = "a deny failed"
		}
		text, err := json.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		f.resolve(string(text))
		if got := f.final("dev"); got != want {
			t.Errorf("fail open %v: %+v: got %s, want %s", open, conditions, got, want)
		}
		seen[want]++
	}
	if seen["Allow"] == 0 || seen["Deny"] == 0 || seen["NoOpinion"] == 0 {
		t.Errorf("too little was tried: %v", seen)
	}
}

// CA-17: what the conditions mention of the request is that of the request itself, not what admission makes of it.
func TestConditionsSeeTheRequest(t *testing.T) {
	for text, want := range map[string]string{
		"request.verb == 'create' && request.user == 'edgar' && 'team-a' in request.groups": "Allow",
		"request.verb == 'patch'": "NoOpinion",
	} {
		f := newFixture(t)
		f.answer(chainOf("", cond("a", reviewv1.EffectAllow, expr.TypeCEL, text)))
		if got := f.final("dev"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		f.wantCalls(1, 0)
	}
}

// PO-20, CA-17: if the request names no object, request.name in a webhook's condition is the name of each object.
func TestConditionsSeeTheNameOfEachObject(t *testing.T) {
	collection := authorizer.AttributesRecord{User: create().User, Verb: "deletecollection", APIVersion: "v1", Resource: "configmaps", Namespace: "n", ResourceRequest: true}
	deleted := func(name string) authorizer.ConditionsData {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
		return admission.NewAttributesRecord(nil, object, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "n", "",
			corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Delete, &metav1.DeleteOptions{}, false, create().User)
	}
	for _, tt := range []struct {
		attrs      authorizer.AttributesRecord
		data       authorizer.ConditionsData
		deny, want string
	}{
		{collection, deleted("ledger"), `request.name == "ledger"`, "Deny"},
		{collection, deleted("other"), `request.name == "ledger"`, "Allow"},
		{collection, deleted("ledger"), `request.name != "ledger"`, "Allow"},
		{create(), createOf("dev"), `request.name == "c"`, "Deny"},
		{create(), createOf("dev"), `request.name != "c"`, "Allow"},
	} {
		f := newFixture(t)
		f.answer(chainOf("", cond("d", reviewv1.EffectDeny, expr.TypeCEL, tt.deny), cond("a", reviewv1.EffectAllow, expr.TypeCEL, "true")))
		d := f.ConditionsAwareAuthorize(t.Context(), tt.attrs)
		if got, reason, err := f.EvaluateConditions(t.Context(), d, tt.data); finals[got] != tt.want {
			t.Errorf("%s, deny %s: got %s (%s, %v), want %s", tt.attrs.Verb, tt.deny, finals[got], reason, err, tt.want)
		}
	}
}

// CA-10: a refusal names the condition also where the webhook evaluated it and said nothing; what it says itself is
// kept.
func TestRefusalNamesTheCondition(t *testing.T) {
	for response, want := range map[string]string{
		`{"allowed":false}`: `condition "example.com/a" was not met`, `{"allowed":false,"reason":"not on Sundays"}`: "not on Sundays",
	} {
		f := newFixture(t)
		f.answer(chainOf("", cond("a", reviewv1.EffectAllow, opaque, "x")))
		f.resolve(response)
		d := f.ConditionsAwareAuthorize(t.Context(), create())
		if got, reason, _ := f.EvaluateConditions(t.Context(), d, createOf("dev")); got != authorizer.DecisionNoOpinion || !strings.Contains(reason, want) {
			t.Errorf("%s: got %s %q, want %q", response, finals[got], reason, want)
		}
	}
}

// A decision of somebody else is not evaluated.
func TestForeignDecisions(t *testing.T) {
	f := newFixture(t)
	foreign := authorizer.GenericCondition{ID: "example.com/x", Type: expr.TypeCEL, Condition: "true"}
	allow := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{foreign})
	if got, _, err := f.EvaluateConditions(t.Context(), allow, createOf("dev")); got != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("got %s, %v", finals[got], err)
	}
	deny := authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{foreign}, nil, nil)
	if got, _, err := f.EvaluateConditions(t.Context(), deny, createOf("dev")); got != authorizer.DecisionDeny || err == nil {
		t.Errorf("got %s, %v", finals[got], err)
	}
}
