package sidecar

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const watched = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: careful, namespace: team}
rules:
- {deny: true, verbs: [create], resourceKinds: [configmaps], where: 'resource.metadata.?labels.size.orValue("") == "big"', enforcement: Warn, description: no big ones}
- {deny: true, verbs: [delete], resourceKinds: [configmaps], enforcement: Shadow}
- {deny: true, verbs: [get], resourceKinds: [configmaps], enforcement: Warn}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: careful, namespace: team}
roleRef: {namespace: team, name: careful}
userNames: [rob]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ProtectedAttribute
metadata: {name: shelf-with-a-name-that-is-longer-than-the-key-of-an-annotation-may-be, namespace: team}
attributeKind: Label
attributeName: shelf
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}
enforcement: Warn
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: team}
rules: [{apiGroups: [""], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}
subjects: [{kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: other, namespace: team}
rules: [{apiGroups: [""], resources: ["configmaps"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: other, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: other}
subjects: [{kind: User, name: tim, apiGroup: rbac.authorization.k8s.io}]
`

// TR-6: what is not enforced refuses nothing beside a stock server, and the answer of admission has what it would have
// refused: a warning for the caller, if that is asked for, and an annotation for the event.
func TestAdmissionTellsWhatIsNotEnforced(t *testing.T) {
	w := newWorld(t, watched)
	for _, tc := range []struct {
		name                string
		attrs               authorizer.AttributesRecord
		labels              map[string]string
		warning, annotation string
	}{
		{"a deny that warns", asked("rob", "create", "configmaps", "team", ""), map[string]string{"size": "big"},
			`this request will be denied once rule 0 of role "careful" in namespace "team" is enforced: no big ones`, "shadow.role.team.careful.0"},
		{"that does not hold", asked("rob", "create", "configmaps", "team", ""), map[string]string{"size": "small"}, "", ""},
		{"a deny that says nothing", asked("rob", "delete", "configmaps", "team", "a"), nil, "", "shadow.role.team.careful.1"},
		{"somebody else", asked("tim", "delete", "configmaps", "team", "a"), nil, "", ""},
		{"a protected attribute", asked("tim", "create", "configmaps", "team", ""), map[string]string{"shelf": "a"}, "shelf-with", "shadow.protectedattribute.team.shelf-with"},
		{"of a member", asked("rob", "create", "configmaps", "team", ""), map[string]string{"shelf": "a"}, "", ""},
	} {
		body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: admitted(tc.attrs, "ConfigMap", tc.labels, tc.labels)})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		w.decider.ServeAdmission(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body)))
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed {
			t.Fatalf("%s: %v\n%s", tc.name, err, answer.Body)
		}
		got := review.Response
		if tc.warning == "" && len(got.Warnings) > 0 || tc.warning != "" && (len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tc.warning)) {
			t.Errorf("%s: warnings %q", tc.name, got.Warnings)
		}
		if tc.annotation == "" && len(got.AuditAnnotations) > 0 || tc.annotation != "" && len(got.AuditAnnotations) != 1 {
			t.Errorf("%s: annotations %q", tc.name, got.AuditAnnotations)
		}
		for key, value := range got.AuditAnnotations {
			if !strings.HasPrefix(key, tc.annotation) || value != "would be denied" || len(validation.IsQualifiedName("proviso.dev/"+key)) > 0 {
				t.Errorf("%s: %s: %s", tc.name, key, value)
			}
		}
	}
}
