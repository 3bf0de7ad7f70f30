package offline

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/state/source"
)

// FP-21: a review with content knows rights to single fields, and offers the right to the field that changes.
func TestReviewsKnowSingleFields(t *testing.T) {
	const policy = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{verbs: [granular, "granular:label(team)"], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]`
	h, err := New(Config{Texts: []source.Text{{Name: "policy", Data: []byte(policy)}}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	object := func(label, value string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "labels": {"` + label + `": "` + value + `"}}}`)}
	}
	for _, test := range []struct {
		user, label string
		allowed     bool
		grant       string
	}{
		{"bob", "team", true, ""},
		{"bob", "env", false, "- granular:label(env)\n"},
		{"eve", "team", false, "- granular\n  - granular:label(team)\n"},
	} {
		status, err := h.Review(t.Context(), "n", authz.SubjectAccessReviewSpec{UserName: test.user, Verb: "patch", ResourceKind: "configmaps", Trace: true,
			Content: object(test.label, "b"), OldContent: object(test.label, "a")})
		if err != nil {
			t.Fatal(err)
		}
		grant := ""
		if status.Trace.Remedy != nil {
			grant = status.Trace.Remedy.Grant
		}
		if status.Allowed != test.allowed || !strings.Contains(grant, test.grant) || strings.Contains(grant, "- patch") {
			t.Errorf("%+v: %+v\n%s", test, status, grant)
		}
	}
}
