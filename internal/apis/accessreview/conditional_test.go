package accessreview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/reviewtest"
)

var (
	allow     = authorizer.ConditionsAwareDecisionAllow("role admin", nil)
	deny      = authorizer.ConditionsAwareDecisionDeny("not on Sundays", nil)
	noOpinion = authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	onlyDev   = set(nil, nil, []string{"dev"})
	notProd   = set([]string{"prod"}, nil, nil)
)

func conditions(names []string) []authorizer.Condition {
	var list []authorizer.Condition
	for _, n := range names {
		list = append(list, authorizer.GenericCondition{
			ID: "example.com/" + n, Type: TypeCEL, Condition: "object.env == '" + n + "'", Description: "env is " + n,
		})
	}
	return list
}

func set(denies, noOpinions, allows []string) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(conditions(denies), conditions(noOpinions), conditions(allows))
}

func union(first string, a authorizer.ConditionsAwareDecision, second string, b authorizer.ConditionsAwareDecision) authorizer.ConditionsAwareDecision {
	var u authorizer.ConditionsAwareDecisionUnion
	u.Add(first, a)
	u.Add(second, b)
	return u.ToDecision()
}

// question is a review of a write, with something appended to its spec.
func question(appended string) string {
	return "spec:\n  user: edgar\n  resourceAttributes: {verb: create, version: v1, resource: persistentvolumes}\n  " + appended
}

const (
	askNothing  = ""
	askReadable = "conditionalAuthorization: {mode: HumanReadable}"
	askFast     = "conditionalAuthorization: {mode: Optimized}"
	askTree     = "authorizationOptions: {handledDecisionTypes: [Allow, Deny, NoOpinion, ConditionsMap, Union]}"
)

// CA-14: the shapes of a conditional answer.
func TestConditionalAnswers(t *testing.T) {
	tests := []struct {
		name      string
		decisions []authorizer.ConditionsAwareDecision
		ask       string
		want      string
	}{
		{"whole chain with descriptions", []authorizer.ConditionsAwareDecision{noOpinion, onlyDev, allow}, askReadable, `
			allowed: true
			authorizationDecision:
			  authorizer: c
			  decision: allow
			reason: role admin`}, // whatever the condition comes to
		{"nobody after the condition", []authorizer.ConditionsAwareDecision{noOpinion, onlyDev}, askReadable, `
			allowed: false
			conditionsChain:
			- authorizerName: b
			  conditions:
			  - condition: object.env == 'dev'
			    description: env is dev
			    effect: Allow
			    id: example.com/dev
			    type: k8s.io/authorization-cel
			  failureMode: Deny`},
		{"deny before allow", []authorizer.ConditionsAwareDecision{notProd, allow}, askReadable, `
			allowed: false
			conditionsChain:
			- authorizerName: a
			  conditions:
			  - condition: object.env == 'prod'
			    description: env is prod
			    effect: Deny
			    id: example.com/prod
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			- allowed: true
			  authorizerName: b
			  reason: role admin`},
		{"allow before deny", []authorizer.ConditionsAwareDecision{onlyDev, deny}, askReadable, `
			allowed: false
			conditionsChain:
			- authorizerName: a
			  conditions:
			  - condition: object.env == 'dev'
			    description: env is dev
			    effect: Allow
			    id: example.com/dev
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			- authorizerName: b
			  denied: true
			  reason: not on Sundays`},
		{"Optimized stops at the first possible Allow and leaves descriptions out",
			[]authorizer.ConditionsAwareDecision{notProd, onlyDev, allow}, askFast, `
			allowed: false
			conditionsChain:
			- authorizerName: a
			  conditions:
			  - condition: object.env == 'prod'
			    effect: Deny
			    id: example.com/prod
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			- authorizerName: b
			  conditions:
			  - condition: object.env == 'dev'
			    effect: Allow
			    id: example.com/dev
			    type: k8s.io/authorization-cel
			  failureMode: Deny`},
		{"an answer made of several", []authorizer.ConditionsAwareDecision{
			union("denies", notProd, "allows", set(nil, []string{"test"}, []string{"dev"})), deny}, askReadable, `
			allowed: false
			conditionsChain:
			- authorizerName: a/denies
			  conditions:
			  - condition: object.env == 'prod'
			    description: env is prod
			    effect: Deny
			    id: example.com/prod
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			- authorizerName: a/allows
			  conditions:
			  - condition: object.env == 'test'
			    description: env is test
			    effect: NoOpinion
			    id: example.com/test
			    type: k8s.io/authorization-cel
			  - condition: object.env == 'dev'
			    description: env is dev
			    effect: Allow
			    id: example.com/dev
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			- authorizerName: b
			  denied: true
			  reason: not on Sundays`},
		{"the same as a tree", []authorizer.ConditionsAwareDecision{
			union("denies", notProd, "allows", set(nil, []string{"test"}, []string{"dev"})), noOpinion, deny}, askTree, `
			allowed: false
			conditionalDecision:
			  type: Union
			  union:
			  - authorizerName: a
			    decision:
			      type: Union
			      union:
			      - authorizerName: denies
			        decision:
			          conditionsMap:
			            denyConditions:
			            - condition: object.env == 'prod'
			              description: env is prod
			              id: example.com/prod
			              type: k8s.io/authorization-cel
			          type: ConditionsMap
			      - authorizerName: allows
			        decision:
			          conditionsMap:
			            allowConditions:
			            - condition: object.env == 'dev'
			              description: env is dev
			              id: example.com/dev
			              type: k8s.io/authorization-cel
			            noOpinionConditions:
			            - condition: object.env == 'test'
			              description: env is test
			              id: example.com/test
			              type: k8s.io/authorization-cel
			          type: ConditionsMap
			  - authorizerName: c
			    decision:
			      deny:
			        reason: not on Sundays
			      type: Deny`},
		{"what went wrong elsewhere is not lost", []authorizer.ConditionsAwareDecision{
			authorizer.ConditionsAwareDecisionNoOpinion("no such role", errors.New("role x is missing")), onlyDev}, askFast, `
			allowed: false
			conditionsChain:
			- authorizerName: b
			  conditions:
			  - condition: object.env == 'dev'
			    effect: Allow
			    id: example.com/dev
			    type: k8s.io/authorization-cel
			  failureMode: Deny
			evaluationError: role x is missing
			reason: 'a: no such role'`},
		{"unconditional, asked for conditions", []authorizer.ConditionsAwareDecision{noOpinion, deny}, askTree, `
			allowed: false
			authorizationDecision:
			  authorizer: b
			  decision: deny
			denied: true
			reason: not on Sundays`},
		{"deny, whatever the condition", []authorizer.ConditionsAwareDecision{notProd, deny}, askReadable, `
			allowed: false
			authorizationDecision:
			  authorizer: b
			  decision: deny
			denied: true
			reason: not on Sundays`},
		{"not asked: an Allow condition is no opinion", []authorizer.ConditionsAwareDecision{onlyDev}, askNothing, `
			allowed: false
			reason: 'a: depends on conditions'`},
		{"not asked: a Deny condition denies", []authorizer.ConditionsAwareDecision{notProd, allow}, askNothing, `
			allowed: false
			denied: true
			reason: depends on conditions`},
		{"handles only what is unconditional", []authorizer.ConditionsAwareDecision{notProd, allow},
			"authorizationOptions: {handledDecisionTypes: [Allow, Deny, NoOpinion, FromTheFuture]}", `
			allowed: false
			denied: true
			reason: depends on conditions`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, Config{}, tt.decisions...)
			code, got := postYAML(t, server, group+"v1/subjectaccessreviews", question(tt.ask), "status")
			if want := tidy(tt.want); code != 201 || got != want {
				t.Errorf("got %d:\n%s\nwant 201:\n%s", code, got, want)
			}
		})
	}
}

// CA-14: all three reviews answer alike, each about its own subject.
func TestEveryReviewAnswersConditionally(t *testing.T) {
	for _, tt := range []struct{ path, review, user string }{
		{"v1/subjectaccessreviews", question(askReadable), "edgar"},
		{"v1/selfsubjectaccessreviews", "spec:\n  resourceAttributes: {verb: create, version: v1, resource: pods}\n  " + askReadable, "alice"},
		{"v1/namespaces/hammer/localsubjectaccessreviews",
			"spec:\n  groups: [g]\n  resourceAttributes: {verb: create, version: v1, resource: pods, namespace: hammer}\n  " + askReadable, ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			link := &reviewtest.Scripted{Decision: onlyDev}
			server := serve(t, Config{Chain: reviewtest.Chain(t, link)})
			code, got := postYAML(t, server, group+tt.path, tt.review, "status")
			if code != 201 || !strings.Contains(got, "id: example.com/dev") || !strings.HasPrefix(got, "allowed: false") {
				t.Errorf("got %d:\n%s", code, got)
			}
			asked := link.Asked()
			if len(asked) != 1 || asked[0].GetUser().GetName() != tt.user {
				t.Errorf("asked %v, want one question about %q", asked, tt.user)
			}
		})
	}
}

// CA-10, CA-24: callers who may ask in one namespace only see that there is a condition, and its text if they may see
// it; callers who ask cluster-wide see everything.
func TestLocalReviewsShowNoConditionsOfOthers(t *testing.T) {
	const local = "spec:\n  user: edgar\n  resourceAttributes: {verb: create, version: v1, resource: pods, namespace: hammer}\n  " + askReadable
	for _, tt := range []struct {
		path, review string
		sees, want   bool
	}{
		{"v1/namespaces/hammer/localsubjectaccessreviews", local, false, false},
		{"v1/namespaces/hammer/localsubjectaccessreviews", strings.Replace(local, askReadable, askTree, 1), false, false},
		{"v1/namespaces/hammer/localsubjectaccessreviews", strings.Replace(local, askReadable, askFast, 1), false, false},
		{"v1/namespaces/hammer/localsubjectaccessreviews", local, true, true},
		{"v1/subjectaccessreviews", question(askReadable), false, true},
		{"v1/selfsubjectaccessreviews", "spec:\n  resourceAttributes: {verb: create, version: v1, resource: pods}\n  " + askReadable, false, true},
	} {
		server := serve(t, Config{Sight: sees(tt.sees)}, onlyDev)
		code, got := postYAML(t, server, group+tt.path, tt.review, "status")
		if shown := strings.Contains(got, "object.env"); code != 201 || shown != tt.want || !strings.HasPrefix(got, "allowed: false") {
			t.Errorf("%s, may see %v: got %d:\n%s", tt.path, tt.sees, code, got)
		}
		if strings.Contains(got, "id: example.com/dev") != tt.want || !tt.want != strings.Contains(got, unseenCondition) {
			t.Errorf("%s, may see %v: does not say what is not shown:\n%s", tt.path, tt.sees, got)
		}
	}
}

// CA-24: of several conditions, those are shown that the caller may see, in every form. With a condition that is not
// shown, nothing else quotes the rules behind the answer. An answer without conditions is that of Kubernetes.
func TestLocalReviewsShowSomeConditions(t *testing.T) {
	const local = "spec:\n  user: edgar\n  resourceAttributes: {verb: create, version: v1, resource: pods, namespace: hammer}\n  "
	const path = "v1/namespaces/hammer/localsubjectaccessreviews"
	config := Config{Sight: view{"example.com/dev": true}, Guards: guard{{Name: "front", Decision: notProd}}}
	for _, ask := range []string{askReadable, askTree, askFast} {
		_, got := postYAML(t, serve(t, config, onlyDev, set(nil, nil, []string{"test"}), deny), group+path, local+ask, "status")
		if !strings.Contains(got, "env == 'dev'") || strings.Contains(got, "env == 'test'") || strings.Contains(got, "env is test") ||
			strings.Contains(got, "env == 'prod'") || strings.Contains(got, "Sundays") || !strings.Contains(got, unseenConditions) {
			t.Errorf("%s: got\n%s", ask, got)
		}
		_, got = postYAML(t, serve(t, Config{Sight: config.Sight}, onlyDev, deny), group+path, local+ask, "status")
		if !strings.Contains(got, "env == 'dev'") || strings.Contains(got, unseenConditions) {
			t.Errorf("%s: got\n%s\nwant the only condition", ask, got)
		}
		_, plain := postYAML(t, serve(t, config, onlyDev, allow), group+path, local, "status")
		if _, got := postYAML(t, serve(t, Config{Sight: config.Sight}, onlyDev, allow), group+path, local+ask, "status"); got != plain && ask != askFast {
			t.Errorf("%s: got\n%s\nwant as if it was not asked for conditions:\n%s", ask, got, plain)
		}
	}
	_, plain := postYAML(t, serve(t, config, onlyDev, deny), group+path, local+askNothing, "status")
	if plain != "allowed: false\ndenied: true\nreason: not on Sundays" {
		t.Errorf("got\n%s\nfor a caller who asks for no conditions", plain)
	}
}

// CA-14: Optimized does not ask those whose answer may not matter; HumanReadable asks everybody up to the first
// unconditional answer; who asks for no conditions is answered as ever.
func TestWhoIsAsked(t *testing.T) {
	for _, tt := range []struct {
		ask  string
		want string
	}{
		{askNothing, "1110"}, {askReadable, "1110"}, {askFast, "1100"}, {askTree, "1110"},
	} {
		t.Run(tt.ask, func(t *testing.T) {
			links := []*reviewtest.Scripted{{Decision: noOpinion}, {Decision: onlyDev}, {Decision: deny}, {Decision: allow}}
			server := serve(t, Config{Chain: reviewtest.Chain(t, links...)})
			postYAML(t, server, group+"v1/subjectaccessreviews", question(tt.ask), "status")
			got := ""
			for _, l := range links {
				got += fmt.Sprint(len(l.Asked()))
			}
			if got != tt.want {
				t.Errorf("asked %s, want %s", got, tt.want)
			}
		})
	}
}

// CA-1, CA-14: a full set is shown in full.
func TestFullSet(t *testing.T) {
	var names []string
	for i := range authorizer.MaxConditionsPerMap {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	full := serve(t, Config{}, set(names[:64], nil, names[64:]))
	if _, got := postYAML(t, full, group+"v1/subjectaccessreviews", question(askReadable), "status"); strings.Count(got, "- condition:") != 128 {
		t.Errorf("got %d conditions, want 128", strings.Count(got, "- condition:"))
	}
	// One more, and Kubernetes' constructor has failed closed.
	tooMany := serve(t, Config{}, set(append(names, "one-more")[:64], nil, append(names, "one-more")[64:]))
	code, got := postYAML(t, tooMany, group+"v1/subjectaccessreviews", question(askReadable), "status")
	if code != 201 || !strings.Contains(got, "denied: true") || !strings.Contains(got, "too many conditions") {
		t.Errorf("got %d:\n%s\nwant a denial that says why", code, got)
	}
}

// CA-2, CA-14: an authorizer that fails open says so.
func TestFailureMode(t *testing.T) {
	chain, err := authorize.NewChain(
		authorize.Link{Name: "hook", Authorizer: &reviewtest.Scripted{Decision: notProd}, FailOpen: true},
		authorize.Link{Name: "rbac", Authorizer: &reviewtest.Scripted{Decision: onlyDev}})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, Config{Chain: chain})
	_, got := postYAML(t, server, group+"v1/subjectaccessreviews", question(askFast), "status")
	if !strings.Contains(got, "failureMode: NoOpinion\n- authorizerName: rbac") || !strings.HasSuffix(got, "failureMode: Deny") {
		t.Errorf("got:\n%s", got)
	}
}

// sees is whether the caller may see the conditions of edgar.
type sees bool

func (sees) Known(context.Context, authorizer.Attributes) error { return nil }
func (s sees) Of(_ context.Context, attrs authorizer.Attributes) View {
	if bool(s) && attrs.GetUser().GetName() == "edgar" {
		return everything{}
	}
	return view{}
}

// view are the conditions that the caller may see.
type view map[string]bool

func (view) Known(context.Context, authorizer.Attributes) error { return nil }
func (v view) Of(context.Context, authorizer.Attributes) View   { return v }
func (view) Whole() bool                                        { return false }
func (v view) Shows(id string) bool                             { return v[id] }
