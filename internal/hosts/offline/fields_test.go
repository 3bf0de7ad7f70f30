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

// FP-19: what is read from files knows the templates of custom resources, as the server does.
func TestTemplatesInFiles(t *testing.T) {
	const policy = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crews.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Crew, listKind: CrewList, plural: crews, singular: crew}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: integer},
      template: {type: object, x-proviso-embedded-template: Pod, properties: {spec: {type: object, properties: {nodeName: {type: string}, hostname: {type: string}, subdomain: {type: string}}}}}}}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{verbs: [granular, "granular:nodeAssignment"], apiGroups: [example.com], resources: [crews]}]
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
	object := func(fields string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "a", "namespace": "n"}, "spec": {"template": {"spec": {"hostname": "h"` + fields + `}}}}`)}
	}
	for fields, want := range map[string]bool{`, "nodeName": "x"`: true, `, "subdomain": "y"`: false} {
		status, err := h.Review(t.Context(), "n", authz.SubjectAccessReviewSpec{UserName: "bob", Verb: "patch", ResourceKind: "crews.example.com", Content: object(fields), OldContent: object("")})
		if err != nil || status.Allowed != want {
			t.Errorf("%s: %+v, %v", fields, status, err)
		}
	}
}
