package server

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

const teamDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.teams.example.com}
spec:
  group: teams.example.com
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              template:
                type: object%[3]s
                properties:
                  metadata: {type: object, x-kubernetes-preserve-unknown-fields: true}
                  spec:
                    type: object
                    properties: {hostname: {type: string}, subdomain: {type: string}, priorityClassName: {type: string}}
`

// FP-19: permissions on fields of pods hold in the templates of custom resources, where their schema says that there is
// one, or a FieldPermission does. An exclusive field is guarded, a hidden one is hidden, and reviews say so.
func TestTemplatesOfCustomResources(t *testing.T) {
	t.Parallel()
	s := hidingServer.get(t)
	admin := dynamic.NewForConfigOrDie(s.admin)
	furnish(t, kubernetes.NewForConfigOrDie(s.admin), "ft")
	for _, d := range [][3]string{{"crew", "Crew", "\n                x-proviso-embedded-template: Pod"}, {"band", "Band", ""}} {
		s.does(t, fmt.Sprintf(teamDefinition, d[0], d[1], d[2]), "create", "-f", "-")
	}
	definitions := admin.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	shown, err := definitions.Get(t.Context(), "crews.teams.example.com", metav1.GetOptions{})
	fine(t, "reading the definition", err)
	if text := fmt.Sprint(shown.Object); !strings.Contains(text, "x-proviso-embedded-template:Pod") {
		t.Errorf("the definition is shown without its key: %s", text)
	}
	permissions := admin.Resource(policyv1alpha1.SchemeGroupVersion.WithResource("fieldpermissions"))
	permission := func(name, field string, more map[string]any) *unstructured.Unstructured {
		spec := map[string]any{"resources": []any{"pods"}, "field": field, "permission": "ft.example.com/" + name}
		for key, value := range more {
			spec[key] = value
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "FieldPermission", "metadata": map[string]any{"name": "ft-" + name}, "spec": spec}}
	}
	band := []any{map[string]any{"resource": "bands.teams.example.com", "field": ".spec.template"}}
	for _, p := range []*unstructured.Unstructured{
		permission("subdomain", ".spec.subdomain", map[string]any{"exclusive": true}),
		permission("hostname", ".spec.hostname", map[string]any{"readExclusive": true, "templates": band}),
		permission("priority", ".spec.priorityClassName", map[string]any{"exclusive": true, "templates": band}),
	} {
		_, err := permissions.Create(t.Context(), p, metav1.CreateOptions{})
		fine(t, "declaring "+p.GetName(), err)
		t.Cleanup(func() { s.does(t, "", "delete", "fieldpermission", p.GetName()) })
	}
	for what, p := range map[string]*unstructured.Unstructured{
		"the schema does not have the field": permission("bad", ".spec.subdomain", map[string]any{"templates": []any{map[string]any{"resource": "bands.teams.example.com", "field": ".spec.tmplate"}}}),
		"a path that is none":                permission("bad", ".spec.subdomain", map[string]any{"templates": []any{map[string]any{"resource": "bands.teams.example.com", "field": "spec"}}}),
		"all resources":                      permission("bad", ".spec.subdomain", map[string]any{"templates": []any{map[string]any{"resource": "*", "field": ".spec.template"}}}),
	} {
		if _, err := permissions.Create(t.Context(), p, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "spec.templates[0].") {
			t.Errorf("%s: %v", what, err)
		}
	}

	s.does(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ft-writer}, rules: [{verbs: [get, create, update, patch], apiGroups: [teams.example.com], resources: [crews, bands]}]}`, "create", "-f", "-")
	s.does(t, "", "create", "clusterrolebinding", "ft-writer", "--clusterrole=ft-writer", "--user=ft-writer")
	grantPolicy(t, admin, "ft", "ft-single", "ft-single", map[string]any{"verbs": []any{"get", "granular", "granular:ft.example.com/subdomain"}, "resourceKinds": []any{"crews.teams.example.com"}})

	resource := func(name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "teams.example.com", Version: "v1", Resource: name}
	}
	for _, k := range [][2]string{{"crews", "Crew"}, {"bands", "Band"}} {
		s.await(k[0], func() (bool, error) {
			_, err := admin.Resource(resource(k[0])).Namespace("ft").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "teams.example.com/v1", "kind": k[1],
				"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"size": int64(1), "template": map[string]any{"spec": map[string]any{"hostname": "h"}}}}}, metav1.CreateOptions{})
			return err == nil, nil
		})
	}
	patch := func(user, name, text string) error {
		_, err := dynamic.NewForConfigOrDie(s.as(user)).Resource(resource(name)).Namespace("ft").Patch(t.Context(), "one", types.MergePatchType, []byte(text), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	template := func(field string) string { return `{"spec":{"template":{"spec":{"` + field + `":"x"}}}}` }
	s.await("the permissions", func() (bool, error) {
		return patch("ft-writer", "crews", `{"spec":{"size":2}}`) == nil && patch("ft-writer", "crews", template("subdomain")) != nil && patch("ft-single", "crews", template("subdomain")) == nil, nil
	})
	for _, tc := range []struct{ user, name, field, refused string }{
		{"ft-writer", "crews", "subdomain", "field .spec.template.spec.subdomain needs granular:ft.example.com/subdomain"},
		{"ft-writer", "crews", "priorityClassName", "field .spec.template.spec.priorityClassName needs granular:ft.example.com/priority"},
		{"ft-writer", "bands", "priorityClassName", "field .spec.template.spec.priorityClassName needs granular:ft.example.com/priority"},
		{"ft-writer", "bands", "subdomain", ""}, // nothing says that it has a template
		{"ft-single", "crews", "subdomain", ""},
		{"ft-single", "crews", "priorityClassName", "granular:ft.example.com/priority"},
	} {
		err := patch(tc.user, tc.name, template(tc.field))
		if tc.refused == "" {
			fine(t, tc.user+" writes "+tc.field+" of "+tc.name, err)
		} else {
			refusedWith(t, tc.user+" writes "+tc.field+" of "+tc.name, err, tc.refused)
		}
	}
	for _, name := range []string{"crews", "bands"} {
		got, err := dynamic.NewForConfigOrDie(s.as("ft-writer")).Resource(resource(name)).Namespace("ft").Get(t.Context(), "one", metav1.GetOptions{})
		fine(t, "reading "+name, err)
		if value, _, _ := unstructured.NestedString(got.Object, "spec", "template", "spec", "hostname"); value != "" {
			t.Errorf("%s shows a hidden field: %q", name, value)
		}
		if got.GetAnnotations()[policyv1alpha1.AnnotationHidden] == "" {
			t.Errorf("%s does not say that something is hidden: %v", name, got.Object)
		}
	}

	// A review says what the server does.
	content := func(field string) string {
		return `{"apiVersion":"teams.example.com/v1","kind":"Crew","metadata":{"name":"one","namespace":"ft"},"spec":{"template":{"spec":{"hostname":"h"` + field + `}}}}`
	}
	for field, want := range map[string]bool{"subdomain": true, "priorityClassName": false} {
		review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": authz.SchemeGroupVersion.String(), "kind": "SubjectAccessReview", "metadata": map[string]any{"namespace": "ft"},
			"spec": map[string]any{"userName": "ft-single", "verb": "patch", "resourceKind": "crews.teams.example.com", "content": decoded(t, content(`,"`+field+`":"x"`)), "oldContent": decoded(t, content(""))}}}
		out, err := admin.Resource(authz.SchemeGroupVersion.WithResource("subjectaccessreviews")).Namespace("ft").Create(t.Context(), review, metav1.CreateOptions{})
		fine(t, "the review", err)
		if allowed, _, _ := unstructured.NestedBool(out.Object, "status", "allowed"); allowed != want {
			t.Errorf("a review says of %s: %v", field, out.Object["status"])
		}
	}
	if out := s.does(t, "", "explain", "crew.spec.template.spec.subdomain"); !strings.Contains(out, "granular:ft.example.com/subdomain") {
		t.Errorf("kubectl explain: %s", out)
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	fine(t, "decoding", u.UnmarshalJSON([]byte(text)))
	return u.Object
}
