package offline

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/state/source"
)

// TR-6: a trace shows rules that are not enforced as such, apart from the chain: they are not counted as granting or
// refusing. It shows them to those who may list shadow rules.
func TestTraceShowsWhatIsNotEnforced(t *testing.T) {
	host, err := New(Config{MasterNamespace: "master", Texts: []source.Text{{Name: "policy", Data: []byte(`apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: maps, namespace: hammer}
rules:
- {verbs: [create], resourceKinds: [configmaps]}
- {verbs: [delete], resourceKinds: [configmaps], enforcement: Shadow}
- {deny: true, verbs: [create], resourceKinds: [configmaps], enforcement: Warn}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: maps, namespace: hammer}
roleRef: {namespace: hammer, name: maps}
userNames: [edgar]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: watcher, namespace: hammer}
rules:
- {verbs: [list], resourceKinds: [shadowrules.authorization.proviso.dev]}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: watcher, namespace: hammer}
roleRef: {namespace: hammer, name: watcher}
userNames: [wanda]
`)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		verb    string
		allowed bool
		rule    string
	}{
		{"create", true, "(Warn: not enforced)"},
		{"delete", false, "(Shadow: not enforced)"},
		{"get", false, ""},
	} {
		spec := authz.SubjectAccessReviewSpec{UserName: "edgar", Verb: tc.verb, ResourceKind: "configmaps", Trace: true}
		status, err := host.Review(t.Context(), "hammer", spec)
		if err != nil || status.Allowed != tc.allowed || status.Trace == nil {
			t.Fatalf("%s: %+v, %v", tc.verb, status, err)
		}
		found := ""
		for _, a := range status.Trace.Authorizers {
			for _, r := range a.Rules {
				if strings.Contains(r.Rule, "not enforced") {
					found += r.Rule
					if a.Name != "not-enforced" || a.Answer != authz.AnswerNotAsked || r.Decides || r.Role.Name != "maps" || status.Trace.DecidedBy == a.Name {
						t.Errorf("%s: %+v", tc.verb, a)
					}
				}
			}
		}
		if tc.rule == "" != (found == "") || !strings.Contains(found, tc.rule) {
			t.Errorf("%s: %q", tc.verb, found)
		}
		spec.UserName = ""
		own, err := host.Ask(t.Context(), &user.DefaultInfo{Name: "edgar", Groups: []string{user.AllAuthenticated}}, "hammer", spec)
		if err != nil || own.Allowed != tc.allowed {
			t.Fatalf("%+v, %v", own, err)
		}
		for _, a := range own.Trace.Authorizers {
			if a.Name == "not-enforced" {
				t.Errorf("%s: edgar may not list shadow rules and sees %+v", tc.verb, a)
			}
		}
	}
}
