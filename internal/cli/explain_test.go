package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// reviewServer serves discovery of pods and answers every review with the given status; it keeps the last question.
func reviewServer(t *testing.T, status authz.SubjectAccessReviewStatus) (url string, asked *authz.SubjectAccessReview) {
	t.Helper()
	asked = &authz.SubjectAccessReview{}
	answer := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api":
			answer(w, metav1.APIVersions{Versions: []string{"v1"}})
		case r.URL.Path == "/apis":
			answer(w, metav1.APIGroupList{})
		case r.URL.Path == "/api/v1":
			answer(w, metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}}}})
		case strings.HasSuffix(r.URL.Path, "/namespaces/hammer/subjectaccessreviews"):
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(body, asked)
			}
			if err != nil {
				t.Error(err)
			}
			done := asked.DeepCopy()
			done.Status = status
			answer(w, done)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func runExplain(t *testing.T, url string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewExplainCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--server", url, "-n", "hammer", "--cache-dir", t.TempDir()}, args...))
	err := cmd.ExecuteContext(t.Context())
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &coded):
		return out.String() + err.Error(), coded.ExitCode()
	}
	return out.String() + err.Error(), codeUnanswered // as Execute does
}

// denied is a refusal by a rule of the namespace, with everything that a trace can have.
func denied() authz.SubjectAccessReviewStatus {
	policy := func(kind, name string) authz.TracedObject {
		return authz.TracedObject{APIGroup: authz.GroupName, Kind: kind, Namespace: "hammer", Name: name}
	}
	deny := authz.RuleTrace{
		Effect: authz.EffectDeny, Role: policy("Role", "dev"), RuleIndex: 1, Rule: "deny verbs delete of pods", Binding: policy("RoleBinding", "devs"),
		Subject: authz.TracedSubject{Kind: "Group", Name: "team-a"}, Decides: true,
		Condition: &authz.ConditionTrace{Value: authz.ConditionTrue, Condition: authz.Condition{ID: "policy.proviso.dev/dev-1", Effect: authz.EffectDeny, Condition: `object.x ==
			1`, Description: "no x"}},
	}
	allow := authz.RuleTrace{
		Effect: authz.EffectAllow, Role: authz.TracedObject{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "edit"}, Rule: "allow verbs *",
		Binding: authz.TracedObject{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding", Name: "editors"}, Subject: authz.TracedSubject{Kind: "ServiceAccount", Namespace: "hammer", Name: "bot"},
		Condition: &authz.ConditionTrace{Value: authz.ConditionUnknown, Condition: authz.Condition{ID: "policy.proviso.dev/dev-2", Effect: authz.EffectAllow}},
	}
	return authz.SubjectAccessReviewStatus{DenyReason: "denied by it", Trace: &authz.DecisionTrace{
		Decision: authz.AnswerDeny, DecidedBy: "policy-namespace",
		Authorizers: []authz.AuthorizerTrace{
			{Name: "system-masters", Answer: authz.AnswerNoOpinion},
			{Name: "policy-sync", Answer: authz.AnswerNoOpinion},
			{Name: "policy-namespace", Answer: authz.AnswerDeny, Reason: "denied by it", Rules: []authz.RuleTrace{deny, allow}, MoreRules: 2},
			{Name: "company", Answer: authz.AnswerNotAsked},
		},
		Remedy: &authz.Remedy{Remove: []authz.RuleTrace{deny}, Grant: "kind: Role\n---\nkind: RoleBinding\n", Note: "ask somebody"},
	}}
}

const deniedText = `no - denied by it

├─ system-masters: no opinion
├─ policy-namespace: no, and that decides
│  ├─ deny verbs delete of pods  <- decides
│  │  ├─ rule 1 of Role "hammer/dev", through RoleBinding "hammer/devs", to Group "team-a"
│  │  └─ refuses if object.x == 1
│  │     └─ is true (no x)
│  ├─ allow verbs *
│  │  ├─ rule 0 of RBAC ClusterRole "edit", through RBAC ClusterRoleBinding "editors", to ServiceAccount "hammer/bot"
│  │  └─ allows if condition policy.proviso.dev/dev-2, which does not matter here
│  └─ and 2 more rules
└─ company: not asked

To allow it, remove the subject from the binding, or the rule from the role:

    deny verbs delete of pods
      rule 1 of Role "hammer/dev", through RoleBinding "hammer/devs", to Group "team-a"

The smallest grant that is missing:

    kind: Role
    ---
    kind: RoleBinding

Note: ask somebody.
`

// SV-6: explain prints the whole trace in the order of the chain.
func TestExplainText(t *testing.T) {
	url, asked := reviewServer(t, denied())
	out, code := runExplain(t, url, "delete", "pod", "web")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	if diff := cmp.Diff(deniedText, out); diff != "" {
		t.Error(diff)
	}
	want := authz.SubjectAccessReviewSpec{Verb: "delete", ResourceKind: "pods", ResourceName: "web", Trace: true}
	if diff := cmp.Diff(want, asked.Spec); diff != "" || asked.Namespace != "hammer" {
		t.Errorf("asked in %q:\n%s", asked.Namespace, diff)
	}
}

// SV-6: exit codes tell scripts what they need, and -o gives them the review.
func TestExplainForScripts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := func(allowed bool, decision authz.TracedAnswer) authz.SubjectAccessReviewStatus {
		return authz.SubjectAccessReviewStatus{Allowed: allowed, Trace: &authz.DecisionTrace{Decision: decision}}
	}
	for _, tc := range []struct {
		name   string
		status authz.SubjectAccessReviewStatus
		args   []string
		code   int
		want   string
	}{
		{name: "yes", status: trace(true, authz.AnswerAllow), args: []string{"get", "pods"}, code: 0, want: "yes"},
		{name: "no", status: trace(false, authz.AnswerNoOpinion), args: []string{"get", "pods"}, code: 1, want: "no"},
		{name: "denied", status: trace(false, authz.AnswerDeny), args: []string{"get", "pods"}, code: 1, want: "no"},
		{name: "it depends", status: trace(false, authz.AnswerConditional), args: []string{"create", "pods"}, code: 2, want: "Conditional"},
		{name: "allowed, unless something in front of the chain refuses the object", status: trace(true, authz.AnswerConditional), args: []string{"create", "pods"}, code: 2, want: "Conditional"},
		{name: "with an object", status: trace(true, authz.AnswerAllow), args: []string{"create", "pods", "-f", file}, code: 0, want: "yes, with this object"},
		{name: "json", status: trace(false, authz.AnswerDeny), args: []string{"get", "pods", "-o", "json"}, code: 1, want: `"decision": "Deny"`},
		{name: "yaml", status: trace(false, authz.AnswerDeny), args: []string{"get", "pods", "-o", "yaml"}, code: 1, want: "decision: Deny"},
		{name: "another output", args: []string{"get", "pods", "-o", "xml"}, code: 3, want: "-o xml: want table, name, json or yaml"},
		{name: "an unknown resource", args: []string{"get", "unicorns"}, code: 3, want: `the server does not serve "unicorns"`},
		{name: "no such file", args: []string{"create", "pods", "-f", file + "x"}, code: 3, want: "no such file"},
		{name: "an evaluation error", status: authz.SubjectAccessReviewStatus{EvaluationError: "cannot say"}, args: []string{"get", "pods"}, code: 3, want: "cannot say"},
		{name: "an older server", args: []string{"get", "pods"}, code: 3, want: "gives no trace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url, _ := reviewServer(t, tc.status)
			out, code := runExplain(t, url, tc.args...)
			if code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want %d:\n%s", code, tc.code, out)
			}
		})
	}
}
