package accessreview

import (
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/randfill"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/test/reviewtest"
)

func TestNewNeedsAChain(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("got no error")
	}
}

// CA-14: a question that cannot be understood is refused with the field that is wrong.
func TestBadQuestions(t *testing.T) {
	server := serve(t, Config{}, onlyDev)
	for _, tt := range []struct{ ask, field string }{
		{askReadable, ""}, {askFast, ""}, {askTree, ""}, {askNothing, ""},
		{"authorizationOptions: {}", ""},
		{"authorizationOptions: {handledDecisionTypes: [Union, ConditionsMap, FromTheFuture]}", ""},
		{"conditionalAuthorization: {}", "spec.conditionalAuthorization.mode"},
		{"conditionalAuthorization: {mode: humanReadable}", "spec.conditionalAuthorization.mode"},
		{"conditionalAuthorization: {mode: Fast}", "spec.conditionalAuthorization.mode"},
		{"authorizationOptions: {handledDecisionTypes: [ConditionsMap]}", "spec.authorizationOptions.handledDecisionTypes"},
		{"authorizationOptions: {handledDecisionTypes: [Allow, Union]}", "spec.authorizationOptions.handledDecisionTypes"},
		{askReadable + "\n  " + askTree, "spec.authorizationOptions"},
	} {
		for _, r := range []struct{ path, review string }{
			{"v1/subjectaccessreviews", question(tt.ask)},
			{"v1/selfsubjectaccessreviews", strings.Replace(question(tt.ask), "user: edgar", "", 1)},
			{"v1/namespaces/hammer/localsubjectaccessreviews", strings.Replace(question(tt.ask), "verb:", "namespace: hammer, verb:", 1)},
		} {
			code, got := postYAML(t, server, group+r.path, r.review, "details")
			switch {
			case tt.field == "" && code != 201:
				t.Errorf("%s %q: got %d %s, want 201", r.path, tt.ask, code, got)
			case tt.field != "" && (code != 422 || !strings.Contains(got, "field: "+tt.field+"\n")):
				t.Errorf("%s %q: got %d\n%s\nwant 422 naming %s", r.path, tt.ask, code, got, tt.field)
			}
		}
	}
}

// CA-6: a review shows conditions only where a request would have them evaluated. Elsewhere they fold, and it says why.
func TestOnlyWhereHonoured(t *testing.T) {
	couldAllow, couldDeny := serve(t, Config{}, onlyDev), serve(t, Config{}, notProd)
	for _, tt := range []struct {
		attributes string
		why        string
	}{
		{"resourceAttributes: {verb: create, version: v1, resource: pods}", ""},
		{"resourceAttributes: {verb: deletecollection, version: v1, group: apps, resource: deployments}", ""},
		{"resourceAttributes: {verb: get, version: v1, resource: pods, subresource: exec}", ""},
		{"resourceAttributes: {verb: get, version: v1, resource: pods, subresource: log}", "a conditional permission cannot be used for get"},
		{"resourceAttributes: {verb: get, version: v1, group: other.io, resource: pods, subresource: exec}", "a conditional permission cannot be used for get"},
		{"resourceAttributes: {verb: list, version: v1, resource: pods}", "a list or watch needs a label or field selector"},
		{"resourceAttributes: {verb: create, resource: pods}", "about one version, set spec.resourceAttributes.version"},
		{"resourceAttributes: {verb: create, version: '*', resource: pods}", "about one version"},
		{"resourceAttributes: {verb: create, group: '*', version: v1, resource: pods}", "about one group"},
		{"resourceAttributes: {verb: create, version: v1, resource: '*'}", "about one resource"},
		{"resourceAttributes: {verb: create, version: v1}", "about one resource"},
		{"resourceAttributes: {verb: create, version: v1, resource: pods, subresource: '*'}", "about one subresource"},
		{"resourceAttributes: {verb: '*', version: v1, resource: pods}", "about one verb"},
		{"nonResourceAttributes: {verb: get, path: /metrics}", "the request has no object to check"},
	} {
		for _, ask := range []string{askReadable, askFast, askTree} {
			review := "spec:\n  user: edgar\n  " + tt.attributes + "\n  " + ask
			for _, d := range []struct {
				server *rest.Config
				folded string
			}{{couldAllow, "allowed: false\nreason:"}, {couldDeny, "allowed: false\ndenied: true\nreason:"}} {
				_, got := postYAML(t, d.server, group+"v1/subjectaccessreviews", review, "status")
				conditional := strings.Contains(got, "example.com/")
				text := strings.Join(strings.Fields(got), " ")
				if tt.why == "" && !conditional {
					t.Errorf("%s: got no conditions:\n%s", review, got)
				}
				if tt.why != "" && (conditional || !strings.HasPrefix(got, d.folded) || !strings.Contains(text, "a condition is not honoured here: ") || !strings.Contains(text, tt.why)) {
					t.Errorf("%s: got:\n%s\nwant %q", review, got, tt.why)
				}
			}
		}
	}
	// Unconditional answers are what they are everywhere, also behind a condition that could only have allowed.
	allowed := serve(t, Config{}, onlyDev, allow)
	for _, ask := range []string{askReadable, askFast, askTree} {
		_, got := postYAML(t, allowed, group+"v1/subjectaccessreviews",
			"spec:\n  user: edgar\n  resourceAttributes: {verb: get, resource: '*'}\n  "+ask, "status")
		if got != "allowed: true\nauthorizationDecision:\n  authorizer: b\n  decision: allow\nreason: role admin" && (ask != askFast || got != "allowed: true\nreason: role admin") {
			t.Errorf("%s: got:\n%s", ask, got)
		}
	}
	// The server may know better.
	strict := Config{Requests: unrestricted{func(authorizer.Attributes) error { return errors.New("served elsewhere") }}}
	_, got := postYAML(t, serve(t, strict, onlyDev), group+"v1/subjectaccessreviews", question(askReadable), "status")
	if !strings.Contains(got, "served elsewhere") || strings.Contains(got, "example.com/") {
		t.Errorf("got:\n%s", got)
	}
}

// PA-8: what stands in front of the chain is shown first, to callers that ask for conditions, and to nobody else.
func TestBefore(t *testing.T) {
	protected := func(d authorizer.ConditionsAwareDecision) Config {
		return Config{Guards: guard{{Name: "protected-attributes", Decision: d}}}
	}
	first := "conditionsChain:\n- authorizerName: protected-attributes\n  conditions:\n  - condition: object.env == 'prod'"
	for _, tt := range []struct {
		name      string
		config    Config
		decisions []authorizer.ConditionsAwareDecision
		review    string
		want      []string
		not       string
	}{
		{"in front of an Allow", protected(notProd), []authorizer.ConditionsAwareDecision{onlyDev, allow}, question(askReadable),
			[]string{first, "- allowed: true\n  authorizerName: b\n  reason: role admin"}, "example.com/dev"},
		{"in front of conditions", protected(notProd), []authorizer.ConditionsAwareDecision{onlyDev}, question(askFast),
			[]string{first, "- authorizerName: a\n"}, "description"},
		{"in a tree", protected(notProd), []authorizer.ConditionsAwareDecision{allow}, question(askTree),
			[]string{"- authorizerName: protected-attributes\n    decision:\n      conditionsMap:\n        denyConditions:"}, "conditionsChain"},
		{"not for those who do not ask", protected(notProd), []authorizer.ConditionsAwareDecision{allow}, question(askNothing),
			[]string{"allowed: true\nreason: role admin"}, "prod"},
		{"not for those who are refused anyway", protected(notProd), []authorizer.ConditionsAwareDecision{deny}, question(askReadable),
			[]string{"denied: true\nreason: not on Sundays"}, "prod"},
		{"not for those whom nobody allows", protected(notProd), []authorizer.ConditionsAwareDecision{noOpinion}, question(askReadable),
			[]string{"allowed: false"}, "prod"},
		{"not for reads", protected(notProd), []authorizer.ConditionsAwareDecision{allow},
			"spec: {user: edgar, resourceAttributes: {verb: get, version: v1, resource: pods}, " + askReadable + "}", []string{"allowed: true"}, "prod"},
		{"nothing protected", protected(noOpinion), []authorizer.ConditionsAwareDecision{allow}, question(askReadable),
			[]string{"allowed: true\nauthorizationDecision:\n  authorizer: a\n  decision: allow\nreason: role admin"}, "Chain"},
		{"cannot allow", protected(allow), []authorizer.ConditionsAwareDecision{onlyDev}, question(askReadable),
			[]string{"denied: true", "protected-attributes can only deny"}, "Chain"},
		{"cannot allow under conditions", protected(onlyDev), []authorizer.ConditionsAwareDecision{allow}, question(askReadable),
			[]string{"denied: true", "protected-attributes can only deny"}, "allowed: true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, got := postYAML(t, serve(t, tt.config, tt.decisions...), group+"v1/subjectaccessreviews", tt.review, "status")
			for _, want := range tt.want {
				if code != 201 || !strings.Contains(got, want) {
					t.Errorf("got %d:\n%s\nwant %q", code, got, want)
				}
			}
			if strings.Contains(got, tt.not) {
				t.Errorf("got:\n%s\nwant no %q", got, tt.not)
			}
		})
	}
}

// PO-16: rules of all authorizers are listed, and incomplete is what any of them says.
func TestRules(t *testing.T) {
	rule := &authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"x"}}
	path := &authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}
	for _, contentType := range []string{asJSON, asProtobuf} {
		for _, incomplete := range []bool{false, true} {
			first := &reviewtest.Scripted{Decision: noOpinion, Rules: []authorizer.ResourceRuleInfo{rule}, Incomplete: incomplete}
			second := &reviewtest.Scripted{Decision: noOpinion, Paths: []authorizer.NonResourceRuleInfo{path}, Err: errors.New("role x is missing")}
			server := serve(t, Config{Chain: reviewtest.Chain(t, first, second)})
			got, err := client(t, server, contentType).SelfSubjectRulesReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "hammer"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := authorizationv1.SubjectRulesReviewStatus{
				ResourceRules:    []authorizationv1.ResourceRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"x"}}},
				NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
				Incomplete:       incomplete, EvaluationError: "role x is missing",
			}
			if diff := cmp.Diff(want, got.Status); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// CA-14: in protobuf the reviews are Kubernetes' own, in both directions.
func TestProtobufIsStock(t *testing.T) {
	fill := randfill.New().RandSource(rand.NewSource(1)).NilChance(0.3).NumElements(0, 3).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) { m.Namespace = c.String(8) })
	for range 300 {
		var stock authorizationv1.SubjectAccessReview
		fill.Fill(&stock.ObjectMeta)
		fill.Fill(&stock.Spec)
		fill.Fill(&stock.Status)
		want, err := stock.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		local := authorizationv1.LocalSubjectAccessReview{ObjectMeta: stock.ObjectMeta, Spec: stock.Spec, Status: stock.Status}
		self := authorizationv1.SelfSubjectAccessReview{ObjectMeta: stock.ObjectMeta, Status: stock.Status, Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: stock.Spec.ResourceAttributes, NonResourceAttributes: stock.Spec.NonResourceAttributes}}
		localBytes, _ := local.Marshal()
		selfBytes, _ := self.Marshal()
		for _, tt := range []struct {
			bytes []byte
			ours  interface {
				Reset()
				Marshal() ([]byte, error)
				Unmarshal([]byte) error
			}
		}{{want, &reviewv1.SubjectAccessReview{}}, {localBytes, &reviewv1.LocalSubjectAccessReview{}}, {selfBytes, &reviewv1.SelfSubjectAccessReview{}}} {
			tt.ours.Reset()
			if err := tt.ours.Unmarshal(tt.bytes); err != nil {
				t.Fatal(err)
			}
			got, err := tt.ours.Marshal()
			if err != nil || string(got) != string(tt.bytes) {
				t.Fatalf("%T: got %x (%v), want %x", tt.ours, got, err, tt.bytes)
			}
			if err := tt.ours.Unmarshal([]byte{0xff}); err == nil {
				t.Fatal("garbage was accepted")
			}
		}
		var ours reviewv1.SubjectAccessReview
		if err := ours.Unmarshal(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stock.Spec, ours.Spec.SubjectAccessReviewSpec, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}
