package authzwebhook

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
)

func randomAttributes(t *testing.T, r *rand.Rand) authorizer.AttributesRecord {
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	a := authorizer.AttributesRecord{
		Verb: pick("get", "create", "list", "patch", "*"), APIGroup: pick("", "apps", "*"), APIVersion: pick("", "v1", "*"),
		Resource: pick("pods", "deployments", "*"), Subresource: pick("", "status"), Namespace: pick("", "n"), Name: pick("", "x"),
		Path: pick("/healthz", "/a<b>&c"), ResourceRequest: r.IntN(4) > 0,
	}
	if r.IntN(8) > 0 {
		u := &user.DefaultInfo{Name: pick("edgar", "ä<b>"), UID: pick("", "u")}
		if r.IntN(2) == 0 {
			u.Groups = []string{pick("g", "h"), "i"}
		}
		switch r.IntN(3) {
		case 0:
			u.Extra = map[string][]string{}
		case 1:
			u.Extra = map[string][]string{"k": {"v", pick("w", "x")}, "l": nil}
		}
		a.User = u
	}
	if r.IntN(2) == 0 {
		selector, err := labels.Parse(pick("a=b", "a!=b", "a in (b,c)", "a notin (b,c)", "a", "!a", "a>1", "a=b,c>1"))
		if err != nil {
			t.Fatal(err)
		}
		a.LabelSelectorRequirements, _ = selector.Requirements()
	}
	if r.IntN(2) == 0 {
		selector, err := fields.ParseSelector(pick("a=b", "a!=b", "a=b,c!=d"))
		if err != nil {
			t.Fatal(err)
		}
		a.FieldSelectorRequirements = selector.Requirements()
	}
	if r.IntN(8) == 0 {
		a.LabelSelectorParsingErr, a.FieldSelectorParsingErr = fmt.Errorf("bad"), fmt.Errorf("bad")
	}
	return a
}

// CA-20: whoever cannot handle conditions asks exactly what stock Kubernetes asks, byte for byte, and gets its
// decision.
func TestStockQuestion(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 1))
	ours := newFixture(t)
	const path = "/reviews/stock"
	stock, err := webhook.New(ours.server.at(path), "v1", 0, 0, *webhook.DefaultRetryBackoff(), authorizer.DecisionDeny, nil, "hook",
		webhookmetrics.NoopAuthorizerMetrics{}, authorizationcel.NewDefaultCompiler())
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true,"reason":"r"}}`
	ours.server.behave(t, path, script{Body: answer})
	ours.server.behave(t, ours.reviews, script{Body: answer})
	const n = 150
	for range n {
		a := randomAttributes(t, random)
		wantDecision, wantReason, wantErr := stock.Authorize(t.Context(), a)
		decision, reason, err := ours.Authorize(t.Context(), a)
		if decision != wantDecision || reason != wantReason || (err == nil) != (wantErr == nil) {
			t.Fatalf("%+v: got %s %q %v, stock says %s %q %v", a, finals[decision], reason, err, finals[wantDecision], wantReason, wantErr)
		}
	}
	got, want := ours.server.calls(t, ours.reviews), ours.server.calls(t, path)
	if len(got) != n || len(want) != n {
		t.Fatalf("got %d calls, stock made %d, want %d", len(got), len(want), n)
	}
	for i := range want {
		if got[i].Body != want[i].Body {
			t.Fatalf("sent %s\nstock sends %s", got[i].Body, want[i].Body)
		}
		if g, w := fmt.Sprint(got[i].Header), fmt.Sprint(want[i].Header); g != w {
			t.Fatalf("sent %s\nstock sends %s", g, w)
		}
	}
}

// CA-6, CA-17, FP-8: the webhook is told that conditions are understood when they can be enforced, and only then.
func TestWhenConditionsAreAskedFor(t *testing.T) {
	base := create()
	for _, tc := range []struct {
		name   string
		change func(*authorizer.AttributesRecord)
		want   bool
	}{
		{"create", func(*authorizer.AttributesRecord) {}, true},
		{"deletecollection", func(a *authorizer.AttributesRecord) { a.Verb = "deletecollection" }, true},
		{"patch of a subresource", func(a *authorizer.AttributesRecord) { a.Verb, a.Subresource = "patch", "status" }, true},
		{"granular", func(a *authorizer.AttributesRecord) { a.Verb = "granular" }, true},
		{"a field permission", func(a *authorizer.AttributesRecord) { a.Verb = "granular:label(example.com)" }, true},
		{"no field permission", func(a *authorizer.AttributesRecord) { a.Verb = "granularity" }, false},
		{"get", func(a *authorizer.AttributesRecord) { a.Verb = "get" }, false},
		{"impersonate", func(a *authorizer.AttributesRecord) { a.Verb = "impersonate" }, true},
		{"what is done while impersonating", func(a *authorizer.AttributesRecord) { a.Verb = "impersonate-on:user-info:list" }, true},
		{"a mode of impersonation", func(a *authorizer.AttributesRecord) { a.Verb = "impersonate:user-info" }, false},
		{"any verb", func(a *authorizer.AttributesRecord) { a.Verb = "*" }, false},
		{"any resource", func(a *authorizer.AttributesRecord) { a.Resource = "*" }, false},
		{"any group", func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }, false},
		{"any version", func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, false},
		{"a path", func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path = false, "/x" }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.answer(`{"allowed":true}`)
			a := base
			tc.change(&a)
			f.ConditionsAwareAuthorize(t.Context(), a)
			calls := f.server.calls(t, f.reviews)
			if len(calls) != 1 {
				t.Fatalf("got %d calls", len(calls))
			}
			if got := strings.Contains(calls[0].Body, `"conditionalAuthorization":{"mode":"HumanReadable"}`); got != tc.want {
				t.Errorf("asked for conditions: %v, want %v: %s", got, tc.want, calls[0].Body)
			}
		})
	}
}

// CA-17: the cache key covers everything the answer depends on.
func TestCacheKey(t *testing.T) {
	f := newFixture(t, cached)
	f.answer(chainOf("", cond("a", reviewv1.EffectAllow, expr.TypeCEL, isDev)))
	ask := func(wantCalls int, what string, change func(*authorizer.AttributesRecord, *user.DefaultInfo)) {
		t.Helper()
		before := len(f.server.calls(t, f.reviews))
		a := create()
		u := *a.User.(*user.DefaultInfo)
		change(&a, &u)
		a.User = &u
		f.ConditionsAwareAuthorize(t.Context(), a)
		if got := len(f.server.calls(t, f.reviews)) - before; got != wantCalls {
			t.Errorf("%s: %d calls, want %d", what, got, wantCalls)
		}
	}
	selector := func(s string) labels.Requirements {
		parsed, err := labels.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := parsed.Requirements()
		return r
	}
	ask(1, "first", func(*authorizer.AttributesRecord, *user.DefaultInfo) {})
	ask(0, "the same", func(*authorizer.AttributesRecord, *user.DefaultInfo) {})
	for what, change := range map[string]func(*authorizer.AttributesRecord, *user.DefaultInfo){
		"user":        func(_ *authorizer.AttributesRecord, u *user.DefaultInfo) { u.Name = "x" },
		"uid":         func(_ *authorizer.AttributesRecord, u *user.DefaultInfo) { u.UID = "x" },
		"groups":      func(_ *authorizer.AttributesRecord, u *user.DefaultInfo) { u.Groups = []string{"x"} },
		"extra":       func(_ *authorizer.AttributesRecord, u *user.DefaultInfo) { u.Extra = map[string][]string{"k": {"x"}} },
		"verb":        func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.Verb = "update" },
		"group":       func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.APIGroup = "x" },
		"version":     func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.APIVersion = "x" },
		"resource":    func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.Resource = "x" },
		"subresource": func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.Subresource = "x" },
		"namespace":   func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.Namespace = "x" },
		"name":        func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) { a.Name = "x" },
		"label selector": func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) {
			a.LabelSelectorRequirements = selector("a=b")
		},
		"field selector": func(a *authorizer.AttributesRecord, _ *user.DefaultInfo) {
			a.FieldSelectorRequirements = fields.OneTermEqualSelector("a", "b").Requirements()
		},
	} {
		ask(1, what, change)
		ask(0, what+" again", change)
	}
	// Not told of conditions, the webhook allows; that must not answer those who can handle them, nor the other way
	// round.
	f.answer(`{"allowed":true}`)
	if got, _, _ := f.Authorize(t.Context(), create()); got != authorizer.DecisionAllow {
		t.Errorf("without conditions: got %s, want Allow", finals[got])
	}
	if d := f.ConditionsAwareAuthorize(t.Context(), create()); !d.IsConditionsMap() {
		t.Errorf("with conditions: got %s, want the cached conditions", d)
	}
}

// A caller does not fill the cache with huge questions.
func TestHugeQuestionsAreNotKept(t *testing.T) {
	f := newFixture(t, cached)
	f.answer(`{"allowed":true}`)
	a := create()
	a.Name = strings.Repeat("x", maxCachedBytes)
	for range 2 {
		f.ConditionsAwareAuthorize(t.Context(), a)
	}
	f.wantCalls(2, 0)
}

// CA-17: match conditions say who is asked; their failure follows the failure policy.
func TestMatchConditions(t *testing.T) {
	for _, tc := range []struct {
		expression, want, wantOpen string
		calls                      int
	}{
		{"request.user == 'edgar'", "Allow", "Allow", 1},
		{"request.user == 'lucas'", "NoOpinion", "NoOpinion", 0},
		{"request.extra['missing'][0] == 'x'", "Deny", "NoOpinion", 0},
	} {
		for want, policy := range map[string]func(*Config){"1" + tc.want: func(*Config) {}, "2" + tc.wantOpen: failOpen} {
			f := newFixture(t, policy, func(c *Config) {
				c.MatchConditions = []apiserver.WebhookMatchCondition{{Expression: tc.expression}}
			})
			f.answer(`{"allowed":true}`)
			if got := name(f.ConditionsAwareAuthorize(t.Context(), create())); got != want[1:] {
				t.Errorf("%s: got %s, want %s", tc.expression, got, want[1:])
			}
			f.wantCalls(tc.calls, 0)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	good := func() Config {
		return Config{
			Name: "hook", Reviews: &rest.Config{Host: "https://127.0.0.1"}, Conditions: &rest.Config{Host: "https://127.0.0.1"}, Version: "v1",
			Compiler: authorizationcel.NewDefaultCompiler(), CEL: newFixture(t).cel,
		}
	}
	for want, spoil := range map[string]func(*Config){
		"":                              func(*Config) {},
		"a name is needed":              func(c *Config) { c.Name = "" },
		"v1beta1 cannot say":            func(c *Config) { c.Version = "v1beta1" },
		"an endpoint for reviews":       func(c *Config) { c.Reviews = nil },
		"needs compilers":               func(c *Config) { c.CEL = nil },
		"matchConditions[0].expression": func(c *Config) { c.MatchConditions = []apiserver.WebhookMatchCondition{{Expression: "x +"}} },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := New(cfg); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// CA-17: conditionsEndpointKubeConfigContext names a context of the webhook's kubeconfig.
func TestConditionsEndpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hook.kubeconfig")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "reviews",
		"clusters": []any{
			map[string]any{"name": "a", "cluster": map[string]any{"server": "https://127.0.0.1:1/reviews"}},
			map[string]any{"name": "b", "cluster": map[string]any{"server": "https://127.0.0.1:1/conditions"}},
		},
		"contexts": []any{
			map[string]any{"name": "reviews", "context": map[string]any{"cluster": "a"}},
			map[string]any{"name": "conditions", "context": map[string]any{"cluster": "b"}},
			map[string]any{"name": "broken", "context": map[string]any{"cluster": "none"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	reviews := &rest.Config{Timeout: 7 * time.Second, QPS: -1}
	got, err := ConditionsEndpoint(file, "conditions", reviews)
	if err != nil || got.Host != "https://127.0.0.1:1/conditions" || got.Timeout != reviews.Timeout || got.QPS != -1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ConditionsEndpoint(file, "missing", reviews); err == nil || !strings.Contains(err.Error(), `no context "missing", it has broken, conditions, reviews`) {
		t.Errorf("missing context: got %v", err)
	}
	if _, err := ConditionsEndpoint(file, "broken", reviews); err == nil {
		t.Error("a context without a cluster was accepted")
	}
	if _, err := ConditionsEndpoint(file+".none", "conditions", reviews); err == nil {
		t.Error("a missing file was accepted")
	}
}
