package policyreview

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// CA-10: what is behind an answer about somebody else is shown to those who may read the roles, role by role; the
// answer itself to everybody who may ask; and what concerns oneself always.
func TestWhoSeesConditions(t *testing.T) {
	h := newHouse(t)
	w := hammer(policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `object.metadata.name == "local"`, Description: "local words"})
	w.Policies = append(w.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: master, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"ban":     {Rules: []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `object.metadata.name == "central"`, Description: "central words"}}},
		"readers": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"roles.authorization.proviso.dev"}}}},
		"askers":  {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, ResourceKinds: []string{"subjectaccessreviews.authorization.k8s.io"}}}},
	}})
	w.PolicyBindings = append(w.PolicyBindings,
		&policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: master, Name: master}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"ban": {RoleName: "ban", UserNames: []string{"edgar"}}, "asker": {RoleName: "askers", UserNames: []string{"webhook"}}, "clark": {RoleName: "readers", UserNames: []string{"clark"}}}},
		&policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: master}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"hubert": {RoleName: "readers", UserNames: []string{"hubert"}}}})
	for _, test := range []struct {
		who            string
		local, central bool
	}{
		{"mallory", false, false}, {"hubert", true, false}, {"clark", true, true}, {"webhook", true, true}, {"edgar", true, true},
	} {
		t.Run(test.who, func(t *testing.T) {
			who := &user.DefaultInfo{Name: test.who}
			ctx := request.WithUser(h.in(w), who)
			require := func(what string, answer any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				text, _ := json.Marshal(answer)
				for word, want := range map[string]bool{"local": test.local, "central": test.central} {
					if got := strings.Contains(string(text), word+" words") || strings.Contains(string(text), `\\\"`+word+`\\\"`); got != want {
						t.Errorf("%s: the condition with %q is shown: %v, want %v\n%s", what, word, got, want, text)
					}
				}
			}
			for _, name := range []string{"", "central", "local"} {
				spec := authz.SubjectAccessReviewSpec{Verb: "create", ResourceKind: "pods", UserName: "edgar", Trace: true}
				if name != "" {
					spec.Content = raw(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"}}`)
				}
				status, err := h.SubjectCan(ctx, who, "hammer", spec)
				if name == "" {
					require("review", status, err)
				}
				if want := name == "local"; err != nil || status.Allowed != want {
					t.Errorf("%s: allowed is %v, want %v (%v)", name, status.Allowed, want, err)
				}
				if name == "central" && !test.central && strings.Contains(status.DenyReason+status.EvaluationError, "central words") {
					t.Errorf("the reason tells: %s", status.DenyReason)
				}
			}
			if test.who != "edgar" { // who can is never about oneself alone
				answer, err := h.WhoCan(ctx, "hammer", authz.ResourceAccessReviewSpec{Verb: "create", ResourceKind: "pods", IncludeBlocked: true})
				require("who can", answer, err)
				if len(answer.Conditional) != 1 {
					t.Errorf("got %+v", answer)
				}
			}
		})
	}
}
