package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// code is the exit code of an error, as Execute gives it.
func code(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	return codeUnanswered
}

func plain(s authorizationv1.SubjectAccessReviewStatus) reviewv1.SubjectAccessReviewStatus {
	return reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: s}
}

// reviews is a server that answers every access review with a status and keeps the last question.
func reviews(t *testing.T, status reviewv1.SubjectAccessReviewStatus) (*answering, *reviewv1.SelfSubjectAccessReviewSpec) {
	t.Helper()
	asked := &reviewv1.SelfSubjectAccessReviewSpec{}
	return answer(t, map[string]any{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": func(r *http.Request) any {
		var review reviewv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		*asked = review.Spec
		review.Status = status
		review.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "proviso"}}
		return review
	}}), asked
}

// SV-6: can-i means by kubectl's words what kubectl means.
func TestCanIWords(t *testing.T) {
	s, asked := reviews(t, plain(authorizationv1.SubjectAccessReviewStatus{Allowed: true}))
	pods := func(verb string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Namespace: "hammer", Verb: verb, Version: "v1", Resource: "pods"}
	}
	with := func(a authorizationv1.ResourceAttributes, change func(*authorizationv1.ResourceAttributes)) authorizationv1.ResourceAttributes {
		change(&a)
		return a
	}
	named := with(pods("delete"), func(a *authorizationv1.ResourceAttributes) { a.Name = "web" })
	for _, tc := range []struct {
		args    []string
		want    authorizationv1.ResourceAttributes
		path    string
		warning string
	}{
		{args: []string{"get", "pods"}, want: pods("get")},
		{args: []string{"get", "po"}, want: pods("get")},
		{args: []string{"delete", "pods/web"}, want: named},
		{args: []string{"delete", "pod", "web"}, want: named},
		// A name that is also a subresource is a name, and whoever meant the subresource is told.
		{args: []string{"create", "pods/exec"}, want: with(pods("create"), func(a *authorizationv1.ResourceAttributes) { a.Name = "exec" }), warning: "--subresource exec"},
		{args: []string{"create", "pods", "--subresource", "exec"}, want: with(pods("create"), func(a *authorizationv1.ResourceAttributes) { a.Subresource = "exec" })},
		{args: []string{"create", "pods/web", "--subresource=exec"}, want: with(pods("create"), func(a *authorizationv1.ResourceAttributes) { a.Subresource, a.Name = "exec", "web" })},
		{args: []string{"get", "pods", "-A"}, want: with(pods("get"), func(a *authorizationv1.ResourceAttributes) { a.Namespace = "" })},
		{args: []string{"*", "*"}, want: authorizationv1.ResourceAttributes{Namespace: "hammer", Verb: "*", Resource: "*"}},
		{args: []string{"impersonate", "users/edgar"}, want: authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "edgar"}},
		{args: []string{"list", "deployments.apps"}, want: authorizationv1.ResourceAttributes{Namespace: "hammer", Verb: "list", Group: "apps", Version: "v1", Resource: "deployments"}},
		{args: []string{"get", "/metrics"}, path: "/metrics"},
	} {
		*asked = reviewv1.SelfSubjectAccessReviewSpec{}
		out, errOut, err := s.runBoth(t, append([]string{"can-i", "-n", "hammer"}, tc.args...)...)
		if err != nil || out != "yes\n" || !strings.Contains(errOut, tc.warning) || tc.warning == "" && errOut != "" {
			t.Errorf("%v: %v, %q, %q", tc.args, err, out, errOut)
			continue
		}
		if tc.path != "" {
			if n := asked.NonResourceAttributes; n == nil || n.Path != tc.path || n.Verb != tc.args[0] {
				t.Errorf("%v: asked %+v", tc.args, asked)
			}
			continue
		}
		if asked.ResourceAttributes == nil {
			t.Errorf("%v: asked %+v", tc.args, asked)
		} else if diff := cmp.Diff(tc.want, *asked.ResourceAttributes); diff != "" {
			t.Errorf("%v:\n%s", tc.args, diff)
		}
	}
}

// SV-6: a question that cannot be answered gets no answer, exit code 3, and says what to type instead.
func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	s, asked := reviews(t, plain(authorizationv1.SubjectAccessReviewStatus{Allowed: true}))
	for _, tc := range []struct{ args, want string }{
		{"can-i get podss", `the server does not serve "podss" (did you mean "pods"?)`},
		{"can-i get nosuch.example.com", `does not serve "nosuch.example.com"; ` + "`kubectl api-resources`"},
		{"can-i create pods --subresource=exce", "not served for pods; served are eviction, exec, status"},
		{"can-i create deployments --subresource=exec", "served are scale, status"},
		{"can-i get pods/", "write TYPE/NAME"},
		{"can-i get pods/web db", "there are two names"},
		{"can-i get /metrics --subresource=status", "cannot be used with a path"},
		{"can-i get /metrics web", "a path has no name"},
		{"can-i get", "proviso can-i VERB TYPE[/NAME]"},
		{"can-i", "for example: proviso can-i get pods"},
		{"can-i get pods web now", "too many arguments"},
		{"can-i --list pods", "--list takes no arguments"},
		{"can-i --list -q", "cannot be combined with --quiet"},
		{"can-i get pods --no-headers", "--no-headers requires --list"},
		{"can-i get pods -o xml", "want table, name, json or yaml"},
		{"explain get /metrics -f x.yaml", "have no object"},
		{"who-can get", "proviso who-can VERB TYPE[/NAME]"},
		{"explain delete pods --stored", "write TYPE/NAME"},
		{"explain create pods/web --stored", "give the new object with -f"},
		{"explain delete pods/web --stored -f x", "are mutually exclusive for delete"},
		{"explain update pods/web --stored --old x", "are mutually exclusive"},
		{"explain delete pods/web --old x", "delete, which has one object"},
		{"policy grant edit", "name a subject"},
		{"policy grant --user edgar", "want one role"},
		{"policy grant edit --serviceaccount builder", "want NAMESPACE:NAME"},
		{"policy open", "proviso policy open NAMESPACE"},
		{"policy deny delete --user edgar", "want verbs and a resource"},
		{"policy deny delete podss --user edgar", `did you mean "pods"?`},
		{"version -o xml", "want line, json or yaml"},
	} {
		*asked = reviewv1.SelfSubjectAccessReviewSpec{}
		args := strings.Fields(tc.args)
		var out string
		var err error
		if args[0] == "version" {
			out, err = runPlain(t, args...)
		} else {
			out, err = s.run(t, args...)
		}
		if code(err) != codeUnanswered || !strings.Contains(err.Error(), tc.want) || out != "" {
			t.Errorf("%s: %d %v, want %q\n%s", tc.args, code(err), err, tc.want, out)
		}
		if asked.ResourceAttributes != nil || asked.NonResourceAttributes != nil {
			t.Errorf("%s: was asked all the same", tc.args)
		}
	}
}

func runPlain(t *testing.T, args ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	root := NewPlugin(streams)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// SV-6: one set of exit codes, errors on standard error, nothing of the server's bookkeeping.
func TestExitCodes(t *testing.T) {
	conditional := reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{{AuthorizerName: "policy-namespace",
		Conditions: []reviewv1.SubjectAccessReviewCondition{{ID: "p/a", Effect: reviewv1.EffectAllow, Condition: `object.x == 1 && object.y < 2`, Description: "only x"}}}}}
	// RD-8
	narrowed, refused := conditional, conditional
	narrowed.Reason, refused.Reason = "narrowed to labelSelector x=1", "conditional; the list cannot be narrowed: why"
	for _, tc := range []struct {
		status     reviewv1.SubjectAccessReviewStatus
		args       string
		code       int
		out        string
		errOut     string
		comparable bool
	}{
		{plain(authorizationv1.SubjectAccessReviewStatus{Allowed: true}), "", 0, "yes\n", "", true},
		{plain(authorizationv1.SubjectAccessReviewStatus{Reason: "because"}), "", 1, "no - because\n", "", true},
		{conditional, "", 2, "Conditional: allowed only if object.x == 1 && object.y < 2\n    only x (policy-namespace, p/a)\n", "", true},
		{narrowed, "", 2, "Conditional: allowed only if object.x == 1 && object.y < 2\n    only x (policy-namespace, p/a)\n    narrowed to labelSelector x=1\n", "", true},
		{refused, "", 2, "Conditional: allowed only if object.x == 1 && object.y < 2\n    only x (policy-namespace, p/a)\n    the list cannot be narrowed: why\n", "", true},
		{conditional, "-q", 2, "", "", true},
		{conditional, "-o name", 2, "conditional\n", "", true},
		{reviewv1.SubjectAccessReviewStatus{}, "-o name", 1, "no\n", "", true},
		{conditional, "-o json", 2, `"condition": "object.x == 1 && object.y < 2"`, "", false},
		{plain(authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "binding x names no role"}), "", 0, "yes\n", "Warning: binding x names no role\n", true},
	} {
		s, _ := reviews(t, tc.status)
		out, errOut, err := s.runBoth(t, append([]string{"can-i", "get", "pods"}, strings.Fields(tc.args)...)...)
		if code(err) != tc.code || errOut != tc.errOut || tc.comparable && out != tc.out || !strings.Contains(out, tc.out) || strings.Contains(out, "managedFields") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tc.args, code(err), tc.code, out, errOut)
		}
	}
}

// SV-6: nobody has to read generated CEL because an attribute is protected.
func TestLongConditionsAreNotPrinted(t *testing.T) {
	long := strings.Repeat(`has(object.metadata.labels) && `, 50) + "true"
	status := reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{
		{AuthorizerName: "exclusive-fields", Conditions: []reviewv1.SubjectAccessReviewCondition{{ID: "a", Effect: reviewv1.EffectDeny, Condition: long, Description: "label env=prod is protected"}}},
		{AuthorizerName: "rbac", Allowed: true, Reason: "bound"},
	}}
	s, _ := reviews(t, status)
	out, err := s.run(t, "can-i", "create", "pods")
	if code(err) != 2 || len(out) > 300 || !strings.Contains(out, "label env=prod is protected (exclusive-fields, a)") || !strings.Contains(out, "otherwise allowed\n      bound (rbac)") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ = s.run(t, "can-i", "create", "pods", "-o", "yaml"); strings.Count(out, "has(object") != 50 {
		t.Error("-o yaml does not have the condition")
	}
}

// PA-15: an answer that is conditional by protections only says so in one line, whatever their number.
func TestProtectionsAreOneLine(t *testing.T) {
	set := reviewv1.SubjectAccessReviewConditionSet{AuthorizerName: "protected-attributes"}
	for i := range 40 {
		set.Conditions = append(set.Conditions, reviewv1.SubjectAccessReviewCondition{ID: fmt.Sprint(i), Effect: reviewv1.EffectDeny, Condition: strings.Repeat("x || ", 99) + "y",
			Description: fmt.Sprintf("label example.com/%d may not be set to, changed from or cleared of any value: it is protected", i)})
	}
	s, _ := reviews(t, reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{set, {AuthorizerName: "rbac", Allowed: true, Reason: "bound"}}})
	out, err := s.run(t, "can-i", "create", "pods")
	const want = "Conditional: allowed without protected attributes (label example.com/0, label example.com/1, label example.com/2, label example.com/3, label example.com/4, and 35 more)\n"
	if code(err) != 2 || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	other := reviewv1.SubjectAccessReviewConditionSet{AuthorizerName: "policy-namespace", Conditions: []reviewv1.SubjectAccessReviewCondition{{ID: "p", Effect: reviewv1.EffectAllow, Condition: "object.x == 1"}}}
	s, _ = reviews(t, reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{set, other}})
	if out, err = s.run(t, "can-i", "create", "pods"); code(err) != 2 || strings.Count(out, "protected attribute") != 1 || !strings.Contains(out, "allowed only if object.x == 1") {
		t.Errorf("%v\n%s", err, out)
	}
}

// PO-14, SV-6: who-can puts problems of others on standard error, hides the system on request, and counts it in the
// answer.
func TestWhoCanOutput(t *testing.T) {
	status := authz.ResourceAccessReviewStatus{
		UserNames: []string{"edgar", "system:kube-controller-manager", "system:serviceaccount:hammer:builder", "system:serviceaccount:kube-system:gc"}, GroupNames: []string{"system:masters", "team-a"},
		Conditional:     []authz.ConditionalSubject{{UserName: "clark", Conditions: []authz.Condition{{Effect: authz.EffectAllow, Condition: "x"}}}},
		EvaluationError: "binding a: role x is missing\nbinding b: role y is missing", Incomplete: true, IncompleteReason: "a webhook",
	}
	answers := func(status authz.ResourceAccessReviewStatus) *answering {
		return answer(t, map[string]any{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/resourceaccessreviews": authz.ResourceAccessReview{Status: status}})
	}
	const warnings = "Warning: the list may be incomplete: a webhook\nWarning: binding a: role x is missing\nWarning: binding b: role y is missing\n"
	out, errOut, err := answers(status).runBoth(t, "who-can", "get", "pods", "-o", "name")
	if err != nil || errOut != warnings || out != "user/edgar\nuser/system:kube-controller-manager\nuser/system:serviceaccount:hammer:builder\nuser/system:serviceaccount:kube-system:gc\ngroup/system:masters\ngroup/team-a\nuser/clark\n" {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
	out, errOut, err = answers(status).runBoth(t, "who-can", "get", "pods", "-o", "name", "--hide-system")
	if err != nil || errOut != "Hidden: 3 users and groups of the system.\n"+warnings || out != "user/edgar\nuser/system:serviceaccount:hammer:builder\ngroup/team-a\nuser/clark\n" {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
	for want, status := range map[int]authz.ResourceAccessReviewStatus{0: {GroupNames: []string{"system:masters"}}, 1: {}, 2: {Conditional: status.Conditional}} {
		if _, err := answers(status).run(t, "who-can", "get", "pods", "--hide-system"); code(err) != want {
			t.Errorf("exit code %d, want %d", code(err), want)
		}
	}
	if _, err := answer(t, map[string]any{}).run(t, "who-can", "get", "pods"); err == nil || !strings.Contains(err.Error(), "it is not Proviso, or its feature gate PolicyAuthorization is off") {
		t.Errorf("a stock server: %v", err)
	}
}

// SV-6: explain reads the stored object as the caller and sends it beside the new one.
func TestExplainStored(t *testing.T) {
	var asked authz.SubjectAccessReviewSpec
	var readAs []string
	s := answer(t, map[string]any{
		"/api/v1/namespaces/default/pods/web": func(r *http.Request) any {
			readAs = append(readAs, r.Header.Get("Impersonate-User"))
			return map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": "web", "labels": map[string]string{"stored": "yes"}}}
		},
		"/api/v1/namespaces/default/pods/gone": metav1.Status{Code: 404, Reason: "NotFound", Message: `pods "gone" not found`},
		"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/subjectaccessreviews": func(r *http.Request) any {
			var review authz.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			asked = review.Spec
			review.Status = authz.SubjectAccessReviewStatus{Allowed: true, Trace: &authz.DecisionTrace{Decision: authz.AnswerAllow}}
			return review
		},
	})
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte("kind: Pod\napiVersion: v1\nmetadata: {name: web, labels: {new: 'yes'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.run(t, "explain", "update", "pods/web", "--stored", "-f", file, "--as", "edgar"); err != nil || !strings.Contains(out, "yes, with this change") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(asked.OldContent.Raw), "stored") || !strings.Contains(string(asked.Content.Raw), "new") || len(readAs) != 1 || readAs[0] != "" {
		t.Errorf("old %s, new %s, read as %q", asked.OldContent.Raw, asked.Content.Raw, readAs)
	}
	if _, err := s.run(t, "explain", "delete", "pods/web", "--stored"); err != nil || asked.OldContent != nil || !strings.Contains(string(asked.Content.Raw), "stored") {
		t.Errorf("%v: %+v", err, asked)
	}
	if _, err := s.run(t, "explain", "delete", "pods/gone", "--stored"); code(err) != 3 || !strings.Contains(err.Error(), `pods "gone" not found; give the object with -f instead`) {
		t.Error(err)
	}
}

// SV-6: can-i --list shows what is left of rights under denies and conditions.
func TestCanIList(t *testing.T) {
	rules := authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}, {Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}}},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}},
	}}
	paths := map[string]any{"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": &rules,
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": func(r *http.Request) any {
			var review reviewv1.SelfSubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			switch a := review.Spec.ResourceAttributes; a.Resource + "/" + a.Subresource + " " + a.Verb {
			case "pods/exec get":
				review.Status.Allowed = true
			case "deployments/scale update":
				review.Status.ConditionsChain = []reviewv1.SubjectAccessReviewConditionSet{{Conditions: []reviewv1.SubjectAccessReviewCondition{{Effect: reviewv1.EffectAllow, Condition: "object.spec.replicas < 3"}}}}
			}
			return review
		}}
	out, err := answer(t, paths).run(t, "can-i", "--list")
	want := "Resources Non-Resource URLs Resource Names Verbs Condition\npods [] [] [get list]\nsecrets [] [mine] [get]\n[/healthz] [] [get]"
	if err != nil || squeeze(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	rules.Status.Incomplete = true
	out, err = answer(t, paths).run(t, "can-i", "--list")
	want = "Resources Non-Resource URLs Resource Names Verbs Condition\npods/exec [] [] [get]\n" +
		"deployments.apps/scale [] [] [update] allowed only if object.spec.replicas < 3\nsecrets [] [mine] [get]\n[/healthz] [] [get]"
	if err != nil || squeeze(out) != want {
		t.Errorf("with conditions: %v\n%s", err, out)
	}
}

// SV-6: resources, namespaces and outputs complete.
func TestCompletion(t *testing.T) {
	s := answer(t, map[string]any{
		"/api/v1/namespaces":                    metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "hammer"}}, {ObjectMeta: metav1.ObjectMeta{Name: "anvil"}}}},
		"/api/v1/namespaces/default/pods":       metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}},
		"/api/v1/namespaces/default/configmaps": metav1.PartialObjectMetadataList{},
	})
	for args, want := range map[string]string{
		"can-i del":               "delete deletecollection",
		"can-i get dep":           "deployments.apps",
		"can-i get pods w":        "web",
		"who-can get po":          "pods",
		"can-i get pods -n ha":    "hammer",
		"can-i get pods -o na":    "table name json yaml",
		"permissions dep":         "deployments.apps",
		"policy open an":          "anvil",
		"explain get pods -n an":  "anvil",
		"policy grant edit -n ha": "hammer",
	} {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		root := NewPlugin(streams)
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(io.Discard)
		words := strings.Fields(args)
		flags := []string{"--server", s.URL, "--cache-dir", t.TempDir(), "--kubeconfig", "/dev/null"}
		path := 1
		if words[0] == "policy" {
			path = 2
		}
		all := append([]string{cobra.ShellCompNoDescRequestCmd}, words[:path]...)
		root.SetArgs(append(append(all, flags...), words[path:]...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _, _ := strings.Cut(out.String(), ":")
		if strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s: %q, want %q", args, out.String(), want)
		}
	}
}
