package authzwebhook

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

const isDev = "object.data.env == 'dev'"

// CA-1, CA-17: what the webhook may answer, in both dialects, and what becomes of everything else.
func TestAnswers(t *testing.T) {
	allow, deny := cond("a", reviewv1.EffectAllow, expr.TypeCEL, isDev), cond("d", reviewv1.EffectDeny, expr.TypeCEL, isDev)
	var many []reviewv1.SubjectAccessReviewCondition
	for i := range 129 {
		many = append(many, cond(fmt.Sprint("c", i), reviewv1.EffectAllow, expr.TypeCEL, isDev))
	}
	const oneMap = `{"type":"ConditionsMap","conditionsMap":{"%s":[{"id":"example.com/a","type":"k8s.io/authorization-cel","condition":"true"}]}}`
	tree := func(list string) string { return fmt.Sprintf(`{"conditionalDecision":`+oneMap+`}`, list) }
	union := func(list string) string {
		return fmt.Sprintf(`{"conditionalDecision":{"type":"Union","union":[{"authorizerName":"x","decision":`+oneMap+`}]}}`, list)
	}
	longer := func(c reviewv1.SubjectAccessReviewCondition, text, description int) string {
		c.Condition, c.Description = strings.Repeat(" ", text), strings.Repeat("d", description)
		return chainOf("", c)
	}
	for _, tc := range []struct {
		name, status string
		want         string // with failure policy Deny
		wantOpen     string // with failure policy NoOpinion; like want if empty
	}{
		{name: "allow", status: `{"allowed":true}`, want: "Allow"},
		{name: "deny", status: `{"denied":true}`, want: "Deny"},
		{name: "no opinion", status: `{"allowed":false}`, want: "NoOpinion"},
		{name: "allow and deny", status: `{"allowed":true,"denied":true}`, want: "Deny"},
		{name: "an allow set", status: chainOf("", allow), want: "Conditions"},
		{name: "a deny set", status: chainOf("NoOpinion", deny), want: "Conditions"},
		{name: "allow and conditions", status: `{"allowed":true,` + chainOf("", allow)[len(`{"allowed":false,`):], want: "Deny", wantOpen: "NoOpinion"},
		{name: "deny and conditions", status: `{"denied":true,` + chainOf("", allow)[1:], want: "Deny"},
		{name: "an empty chain", status: `{"conditionsChain":[]}`, want: "NoOpinion"},
		{name: "an empty set", status: `{"conditionsChain":[{}]}`, want: "NoOpinion"},
		{name: "an allowed set", status: `{"conditionsChain":[{"allowed":true}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "a denied set", status: `{"conditionsChain":[{"denied":true}]}`, want: "Deny"},
		{name: "two allow sets", status: `{"conditionsChain":[{"conditions":[{"id":"e.com/a","effect":"Allow"}]},{"conditions":[{"id":"e.com/b","effect":"Allow"}]}]}`, want: "NoOpinion"},
		{name: "two sets, one with a deny", status: `{"conditionsChain":[{"conditions":[{"id":"e.com/a","effect":"Allow"}]},{"conditions":[{"id":"e.com/b","effect":"Deny"}]}]}`, want: "Deny"},
		{name: "as many as fit", status: chainOf("", many[:128]...), want: "Conditions"},
		{name: "too many", status: chainOf("", many...), want: "NoOpinion"},
		{name: "too many with a deny", status: chainOf("", append(many[:128:128], deny)...), want: "Deny"},
		{name: "an ID twice", status: chainOf("", allow, allow), want: "NoOpinion"},
		{name: "an ID twice with a deny", status: chainOf("", deny, deny), want: "Deny"},
		{name: "no domain", status: `{"conditionsChain":[{"conditions":[{"id":"no-pod-exec","effect":"Deny"}]}]}`, want: "Conditions"},
		{name: "no ID", status: `{"conditionsChain":[{"conditions":[{"effect":"Allow"}]}]}`, want: "NoOpinion"},
		{name: "a type that is no label key", status: `{"conditionsChain":[{"conditions":[{"id":"a","effect":"Deny","type":"a b"}]}]}`, want: "Deny"},
		{name: "as the design spells it", status: `{"conditionsChain":[{"conditionsSet":[{"id":"lucas-only","effect":"Allow","type":"k8s.io/authorization-cel","condition":"true"}]}]}`, want: "Conditions"},
		{name: "both spellings", status: `{"conditionsChain":[{"conditions":[{"id":"a","effect":"Allow"}],"conditionsSet":[{"id":"b","effect":"Deny"}]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		// A key that nobody knows may narrow what it stands beside.
		{name: "an unknown key of a condition", status: `{"conditionsChain":[{"conditions":[{"id":"a","effect":"Allow","unless":"x"}]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "an unknown key of a set", status: `{"conditionsChain":[{"conditions":[{"id":"a","effect":"Allow"}],"denyConditions":[]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "an unknown key beside a set", status: `{"validFor":"1s","conditionsChain":[{"conditions":[{"id":"a","effect":"Allow"}]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "a key twice", status: `{"conditionsChain":[{"conditions":[{"id":"a","effect":"Deny","effect":"Allow"}]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "a key in another case", status: `{"conditionsChain":[{"conditions":[{"id":"a","Effect":"Allow"}]}]}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "an unknown key of a tree", status: `{"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"a","unless":"x"}]}}}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "an unknown dialect", status: `{"allowed":true,"conditionTree":{}}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "conditions that a duplicate key hides", status: `{"allowed":true,"conditionsChain":[{"conditions":[{"id":"a","effect":"Deny"}]}],"conditionsChain":null}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "an unknown key without conditions", status: `{"allowed":true,"cost":3}`, want: "Allow"},
		{name: "no label key", status: `{"conditionsChain":[{"conditions":[{"id":"e.com/ä","effect":"Allow"}]}]}`, want: "NoOpinion"},
		{name: "longest text", status: longer(allow, expr.MaxLength, 1024), want: "Conditions"},
		{name: "text too long", status: longer(allow, expr.MaxLength+1, 0), want: "NoOpinion"},
		{name: "text of a deny too long", status: longer(deny, expr.MaxLength+1, 0), want: "Deny"},
		{name: "description too long", status: longer(allow, 1, 1025), want: "NoOpinion"},
		{name: "an unknown effect", status: chainOf("", allow, cond("u", "Perhaps", opaque, "")), want: "Deny"},
		{name: "an unknown failure mode", status: chainOf("Perhaps", allow), want: "NoOpinion"},
		{name: "tree", status: tree("allowConditions"), want: "Conditions"},
		{name: "tree with a deny", status: tree("denyConditions"), want: "Conditions"},
		{name: "tree with only a no-opinion", status: tree("noOpinionConditions"), want: "NoOpinion"},
		{name: "union", status: union("allowConditions"), want: "NoOpinion"},
		{name: "union with a deny", status: union("denyConditions"), want: "Deny"},
		{name: "tree of unknown type", status: `{"conditionalDecision":{"type":"Perhaps"}}`, want: "Deny"},
		{name: "tree that allows", status: `{"conditionalDecision":{"type":"Allow"}}`, want: "NoOpinion"},
		{name: "tree without its member", status: `{"conditionalDecision":{"type":"ConditionsMap"}}`, want: "NoOpinion"},
		{name: "allow and tree", status: `{"allowed":true,` + tree("allowConditions")[1:], want: "Deny", wantOpen: "NoOpinion"},
		{name: "both dialects", status: tree("allowConditions")[:len(tree("allowConditions"))-1] + `,` + chainOf("", allow)[1:], want: "NoOpinion"},
		{name: "a status of another shape", status: `{"allowed":"yes"}`, want: "Deny", wantOpen: "NoOpinion"},
		{name: "a chain of another shape", status: `{"conditionsChain":"none"}`, want: "Deny", wantOpen: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.wantOpen == "" {
				tc.wantOpen = tc.want
			}
			for want, configure := range map[string]func(*Config){"policy Deny: " + tc.want: cached, "policy NoOpinion: " + tc.wantOpen: failOpen} {
				f := newFixture(t, configure)
				f.answer(tc.status)
				for range 2 { // the second may come from the cache and must mean the same
					d := f.ConditionsAwareAuthorize(t.Context(), create())
					if got := name(d); !strings.HasSuffix(want, ": "+got) {
						t.Errorf("got %s, want %s", d, want)
					}
					// Conditions that cannot be read are a 403; only what stock Kubernetes takes for an error may be a
					// 500.
					if err := d.Error(); err != nil && saysConditions([]byte(`{"status":`+tc.status+`}`)) && !authorize.FailedClosed(err) {
						t.Errorf("%v would be an error of the server's", err)
					}
				}
			}
		})
	}
}

// CA-17: a webhook that was not asked for conditions and answers with some is folded, even beside an allow.
func TestUnaskedConditionsFold(t *testing.T) {
	allow, deny := cond("a", reviewv1.EffectAllow, expr.TypeCEL, "true"), cond("d", reviewv1.EffectDeny, expr.TypeCEL, "false")
	for status, want := range map[string]string{
		chainOf("", allow):       "NoOpinion",
		chainOf("", deny, allow): "Deny",
		`{"allowed":true}`:       "Allow",
		`{"allowed":true,"conditionsChain":[{"conditions":[{"id":"e.com/a","effect":"Deny"}]}]}`: "Deny",
	} {
		f := newFixture(t)
		f.answer(status)
		if got, _, _ := f.Authorize(t.Context(), create()); finals[got] != want {
			t.Errorf("%s: got %s, want %s", status, finals[got], want)
		}
	}
}

// CA-17: without a conditions endpoint, the webhook is not told of conditions. A set of the built-in type is evaluated
// in process all the same, and any other is answered by the failure mode: a condition is never ignored.
func TestConditionsWithoutEndpoint(t *testing.T) {
	noEndpoint := func(c *Config) { c.Conditions = nil }
	cel := func(effect reviewv1.ConditionEffect, text string) reviewv1.SubjectAccessReviewCondition {
		return cond("c", effect, expr.TypeCEL, text)
	}
	for _, tc := range []struct {
		name, status   string
		want, wantOpen string
	}{
		{"a deny that holds", chainOf("", cel("Deny", isDev)), "Deny", "Deny"},
		{"a deny that does not hold", chainOf("", cel("Deny", "object.data.env == 'prod'")), "NoOpinion", "NoOpinion"},
		{"an allow that holds", chainOf("", cel("Allow", isDev)), "Allow", "Allow"},
		{"an allow that does not hold", chainOf("", cel("Allow", "object.data.env == 'prod'")), "NoOpinion", "NoOpinion"},
		{"a deny that does not compile", chainOf("", cel("Deny", "nonsense(")), "Deny", "NoOpinion"},
		{"an allow that does not compile", chainOf("", cel("Allow", "nonsense(")), "NoOpinion", "NoOpinion"},
		{"an opaque deny", chainOf("", cond("c", "Deny", opaque, "x")), "Deny", "NoOpinion"},
		{"an opaque allow", chainOf("", cond("c", "Allow", opaque, "x")), "Deny", "NoOpinion"},
		{"a mixed set", chainOf("", cel("Allow", "true"), cond("o", "NoOpinion", opaque, "x")), "Deny", "NoOpinion"},
		{"a malformed set", chainOf("", cel("Perhaps", "true")), "Deny", "Deny"},
		{"an allow", `{"allowed":true}`, "Allow", "Allow"},
	} {
		for want, policy := range map[string]func(*Config){"Deny: " + tc.want: func(*Config) {}, "NoOpinion: " + tc.wantOpen: failOpen} {
			f := newFixture(t, noEndpoint, policy)
			f.answer(tc.status)
			link := authorize.Link{Name: "hook", Authorizer: f.Webhook, FailOpen: strings.HasPrefix(want, "NoOpinion")}
			chain, err := authorize.NewChain(link)
			if err != nil {
				t.Fatal(err)
			}
			v := chain.Decide(t.Context(), create())
			got := v.Decision
			for _, rest := range []requestctx.Pending{v.Pending, v.Denies} {
				if rest != nil {
					got = rest.Resolve(t.Context(), createOf("dev")).Decision
				}
			}
			if !strings.HasSuffix(want, ": "+finals[got]) || v.Err != nil {
				t.Errorf("%s: got %s, %v, want %s", tc.name, finals[got], v.Err, want)
			}
			for _, call := range f.server.calls(t, f.reviews) {
				if strings.Contains(call.Body, "conditionalAuthorization") {
					t.Errorf("the webhook is told of conditions: %s", call.Body)
				}
			}
		}
	}
}

// CA-17: a version of the review that cannot say conditions does not make them disappear.
func TestConditionsInOldVersion(t *testing.T) {
	for status, want := range map[string]string{
		`{"allowed":true}`:  "Allow",
		`{"allowed":false}`: "NoOpinion",
		`{"allowed":false,"conditionsChain":[{"conditions":[{"id":"a","effect":"Deny","type":"k8s.io/authorization-cel","condition":"true"}]}]}`: "Deny",
	} {
		f := newFixture(t)
		f.server.behave(t, f.reviews, script{Body: `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":` + status + `}`})
		hook, err := webhook.New(Unconditional(f.server.at(f.reviews)), "v1beta1", 0, 0, wait.Backoff{Steps: 1}, authorizer.DecisionDeny, nil, "hook",
			webhookmetrics.NoopAuthorizerMetrics{}, authorizationcel.NewDefaultCompiler())
		if err != nil {
			t.Fatal(err)
		}
		chain, err := authorize.NewChain(authorize.Link{Name: "hook", Authorizer: hook})
		if err != nil {
			t.Fatal(err)
		}
		if v := chain.Decide(t.Context(), create()); finals[v.Decision] != want || v.Err != nil {
			t.Errorf("%s: got %s, %v, want %s", status, finals[v.Decision], v.Err, want)
		}
	}
}

// CA-17: redirects are not followed, by neither client.
func TestRedirects(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		f := newFixture(t)
		elsewhere := f.reviews + "/elsewhere"
		f.server.behave(t, elsewhere, script{Body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`})
		f.server.behave(t, f.reviews, script{Status: code, Location: elsewhere})
		if d := f.ConditionsAwareAuthorize(t.Context(), create()); !d.IsDeny() || !strings.Contains(d.Error().Error(), "redirects are not followed") {
			t.Errorf("%d: got %s, %v", code, d, d.Error())
		}
		f.answer(chainOf("", cond("a", "Allow", opaque, "x")))
		d := f.ConditionsAwareAuthorize(t.Context(), create())
		f.server.behave(t, elsewhere, script{Body: `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":{"allowed":true}}`})
		f.server.behave(t, f.conditions, script{Status: code, Location: elsewhere})
		if got, _, err := f.EvaluateConditions(t.Context(), d, createOf("dev")); finals[got] != "NoOpinion" || err == nil {
			t.Errorf("%d: got %s, %v", code, finals[got], err)
		}
		if n := len(f.server.calls(t, elsewhere)); n != 0 {
			t.Errorf("%d: the other address was asked %d times", code, n)
		}
	}
}

// CA-17: broken webhooks follow the failure policy, and never allow.
func TestBrokenWebhook(t *testing.T) {
	dead, err := startProcess()
	if err != nil {
		t.Fatal(err)
	}
	dead.stop()
	for _, tc := range []struct {
		name   string
		server *process
		script script
	}{
		{name: "slow", script: script{Hang: true}},
		{name: "dead", server: dead},
		{name: "drops", script: script{Drop: true}},
		{name: "nonsense", script: script{Body: "<html>"}},
		{name: "empty", script: script{}},
		{name: "another kind", script: script{Body: `{"apiVersion":"v1","kind":"Pod","status":{"allowed":true}}`}},
		{name: "error", script: script{Status: 500, Body: `{"status":{"allowed":true}}`}},
		{name: "oversized", script: script{Body: `{"status":{"allowed":true,"reason":"`, Fill: maxResponse, Tail: `"}}`}},
		{name: "nested", script: script{Body: strings.Repeat("[", 100000)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := tc.server
			if server == nil {
				server = child(t)
			}
			for want, policy := range map[string]func(*Config){"Deny": func(*Config) {}, "NoOpinion": failOpen} {
				f := fixtureAt(t, server, impatient, policy)
				if server != dead {
					server.behave(t, f.reviews, tc.script)
				}
				d := f.ConditionsAwareAuthorize(t.Context(), create())
				if name(d) != want || d.Error() == nil {
					t.Errorf("got %s, want %s with an error", d, want)
				}
				if got, _, err := f.Authorize(t.Context(), create()); finals[got] != want || err == nil {
					t.Errorf("without conditions: got %s, %v, want %s with an error", finals[got], err, want)
				}
			}
		})
	}
}
