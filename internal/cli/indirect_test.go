package cli

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// asking is a server that knows who can do what: subjects by "VERB KIND[/NAME][ in NAMESPACE]".
func asking(t *testing.T, who map[string]authz.ResourceAccessReviewStatus) *answering {
	t.Helper()
	paths := map[string]any{}
	for namespace, path := range map[string]string{"": "", "default": "namespaces/default/", "vault": "namespaces/vault/"} {
		paths["/apis/authorization.proviso.dev/v1alpha1/"+path+"resourceaccessreviews"] = func(r *http.Request) any {
			var review authz.ResourceAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			review.Status = who[helpful{review.Spec.Verb, review.Spec.ResourceKind, review.Spec.ResourceName, namespace}.String()]
			return review
		}
	}
	paths["/apis/authorization.proviso.dev/v1alpha1/namespaces/gone/resourceaccessreviews"] =
		metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: `namespaces "gone" not found`}
	return answer(t, paths)
}

func users(names ...string) authz.ResourceAccessReviewStatus {
	return authz.ResourceAccessReviewStatus{UserNames: names}
}

// TR-21: each step to a service account that the threat model lists is asked about, for accounts that can always or
// under conditions, and for the groups of accounts.
func TestIndirectByAccounts(t *testing.T) {
	conditional := func(user, group string) authz.ResourceAccessReviewStatus {
		return authz.ResourceAccessReviewStatus{Conditional: []authz.ConditionalSubject{{UserName: user, GroupName: group, Conditions: []authz.Condition{{Effect: authz.EffectAllow, Condition: "x"}}}}}
	}
	const bot = "system:serviceaccount:vault:bot"
	for name, tc := range map[string]struct {
		holder    authz.ResourceAccessReviewStatus
		as        string // whom they act as
		after     string
		namespace string // "" is every one
		named     bool
	}{
		"an account":                   {holder: users(bot), as: bot, namespace: "vault", named: true},
		"an account under conditions":  {holder: conditional(bot, ""), as: bot, after: ", under its conditions", namespace: "vault", named: true},
		"the accounts of a namespace":  {holder: authz.ResourceAccessReviewStatus{GroupNames: []string{"system:serviceaccounts:vault"}}, as: "a member of system:serviceaccounts:vault", namespace: "vault"},
		"they, under conditions":       {holder: conditional("", "system:serviceaccounts:vault"), as: "a member of system:serviceaccounts:vault", after: ", under its conditions", namespace: "vault"},
		"all accounts":                 {holder: authz.ResourceAccessReviewStatus{GroupNames: []string{"system:serviceaccounts"}}, as: "a member of system:serviceaccounts"},
		"all, by this namespace's own": {holder: authz.ResourceAccessReviewStatus{GroupNames: []string{"system:serviceaccounts"}}, as: "a member of system:serviceaccounts", namespace: "default"},
	} {
		t.Run(name, func(t *testing.T) {
			bot := ""
			if tc.named {
				bot = "bot"
			}
			steps := map[helpful]string{
				{"impersonate", "serviceaccounts", bot, tc.namespace}:    "impersonate ",
				{"create", "serviceaccounts/token", bot, tc.namespace}:   "mint a token of ",
				{"get", "secrets", "", tc.namespace}:                     "read a secret with a token of ",
				{"list", "secrets", "", tc.namespace}:                    "read a secret with a token of ",
				{"watch", "secrets", "", tc.namespace}:                   "read a secret with a token of ",
				{"patch", "secrets", "", tc.namespace}:                   "read a secret with a token of ",
				{"create", "pods/exec", "", tc.namespace}:                "run commands in a pod of ",
				{"create", "pods/attach", "", tc.namespace}:              "run commands in a pod of ",
				{"update", "pods/ephemeralcontainers", "", tc.namespace}: "run commands in a pod of ",
				{"patch", "pods/ephemeralcontainers", "", tc.namespace}:  "run commands in a pod of ",
				{"patch", "pods", "", tc.namespace}:                      "run commands in a pod of ",
				{"create", "pods", "", tc.namespace}:                     "run a pod as ",
				{"create", "replicationcontrollers", "", tc.namespace}:   "run a pod as ",
				{"create", "daemonsets.apps", "", tc.namespace}:          "run a pod as ",
				{"create", "replicasets.apps", "", tc.namespace}:         "run a pod as ",
				{"update", "statefulsets.apps", "", tc.namespace}:        "run a pod as ",
				{"patch", "deployments.apps", "", tc.namespace}:          "run a pod as ",
				{"create", "jobs.batch", "", tc.namespace}:               "run a pod as ",
				{"create", "cronjobs.batch", "", tc.namespace}:           "run a pod as ",
			}
			for right, how := range steps {
				out, err := asking(t, map[string]authz.ResourceAccessReviewStatus{"get pods in default": tc.holder, right.String(): users("ann")}).run(t, "who-can", "get", "pods", "--indirect", "-o", "json")
				var got struct{ Indirect []indirect }
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				want := []indirect{{UserName: "ann", How: how + tc.as + tc.after, Right: right.String()}}
				if !slices.Equal(got.Indirect, want) {
					t.Errorf("%v: %v, %v\nwant %v", right, err, got.Indirect, want)
				}
			}
		})
	}
}

// TR-21: what was not asked about is said, and an empty answer claims no more than was asked.
func TestIndirectClaimsNoMore(t *testing.T) {
	const none = "None of the steps that were asked about leads another subject to this right"
	ask := func(who map[string]authz.ResourceAccessReviewStatus, args ...string) (string, string) {
		t.Helper()
		out, errOut, err := asking(t, who).runBoth(t, append([]string{"who-can", "get", "pods", "--indirect"}, args...)...)
		if err != nil && code(err) != codeDepends {
			t.Error(err)
		}
		return out, errOut
	}
	holders := func(s authz.ResourceAccessReviewStatus) map[string]authz.ResourceAccessReviewStatus {
		return map[string]authz.ResourceAccessReviewStatus{"get pods in default": s}
	}
	if out, errOut := ask(holders(users("ann"))); !strings.Contains(out, none+".") || errOut != "" {
		t.Errorf("nobody else\n%s%s", out, errOut)
	}

	// A user with a conditional right is a step to others, and not to itself.
	some := holders(authz.ResourceAccessReviewStatus{Conditional: []authz.ConditionalSubject{{UserName: "ann", Conditions: []authz.Condition{{Effect: authz.EffectAllow, Condition: "x"}}}}})
	some["impersonate users/ann"] = users("ann", "bob")
	if out, _ := ask(some); !strings.Contains(out, "bob    impersonate ann, under its conditions") || strings.Contains(out, "ann    impersonate") {
		t.Errorf("under conditions\n%s", out)
	}

	hidden := holders(users("ann"))
	hidden["impersonate users/ann"] = users("system:kube-controller-manager")
	if out, _ := ask(hidden, "--hide-system"); !strings.Contains(out, none+", except users and groups of the system, which are hidden.") {
		t.Errorf("one of the system\n%s", out)
	}
	if out, errOut := ask(holders(users("system:serviceaccount:gone:bot"))); !strings.Contains(out, none) || !strings.Contains(errOut, "service accounts of namespaces that do not exist are not listed: gone\n") {
		t.Errorf("an account of a namespace that does not exist\n%s%s", out, errOut)
	}
	if _, errOut := ask(holders(authz.ResourceAccessReviewStatus{GroupNames: []string{"system:serviceaccounts"}})); !strings.Contains(errOut, "another namespace only are not listed") {
		t.Errorf("all accounts\n%s", errOut)
	}
}

// TR-21: secrets are mounted by each kind that makes pods, and read in each way into a pod.
func TestIndirectByMounting(t *testing.T) {
	for right, how := range map[string]string{
		"create pods in default": "mount it in a pod", "patch deployments.apps in default": "mount it in a pod", "create replicasets.apps in default": "mount it in a pod",
		"create pods/attach in default": "run commands in a pod that has it", "patch pods/ephemeralcontainers in default": "run commands in a pod that has it", "update pods in default": "run commands in a pod that has it",
	} {
		ways := waysTo("default", "secrets", users("ann"))
		if !slices.ContainsFunc(ways, func(w way) bool { return w.how == how && w.rights[0].String() == right }) {
			t.Errorf("%s: not asked about", right)
		}
	}
}
