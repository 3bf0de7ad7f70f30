package server

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const shapesDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shapes.versions.example.com}
spec:
  group: versions.example.com
  scope: Namespaced
  names: {plural: shapes, kind: Shape}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {note: {type: string}, keep: {type: string}, level: {type: string}, spec: {type: object, properties: {replicas: {type: integer}}}}}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {note: {type: string}, spec: {type: object, properties: {replicas: {type: integer}}}}}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
`

// NI-5: a rule means the same in every version. Version v1beta1 drops what the rules look at: a caller whom a rule
// concerns is refused there, instead of getting past it, and cannot take the field out of the schema either.
func TestOneMeaningInEveryVersion(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := dynamic.NewForConfigOrDie(s.admin)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	v1 := schema.GroupVersionResource{Group: "versions.example.com", Version: "v1", Resource: "shapes"}
	older := schema.GroupVersionResource{Group: "versions.example.com", Version: "v1beta1", Resource: "shapes"}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(shapesDefinition), &definition.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Resource(definitions).Create(ctx, &definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	make := func(name string) func() (bool, error) {
		return func() (bool, error) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "versions.example.com/v1", "kind": "Shape", "metadata": map[string]any{"name": name, "labels": map[string]any{"own": "x", "other": "x"}},
				"note": "n", "keep": map[bool]string{true: "yes", false: "no"}[name == "kept"], "level": "high"}}
			_, err := admin.Resource(v1).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
			return err == nil, nil
		}
	}
	s.await("a shape that is kept", make("kept"))
	s.await("a shape that is not", make("loose"))
	all := map[string]any{"verbs": []any{"get", "create", "update", "patch", "delete", "deletecollection"}, "resourceKinds": []any{"shapes.versions.example.com", "shapes.versions.example.com/scale"}}
	grantReads(t, admin, "versions-keep", "vera", all, map[string]any{"verbs": []any{"update", "patch", "delete", "deletecollection"}, "resourceKinds": []any{"shapes.versions.example.com"}, "deny": true,
		"where": `has(resource.keep) && resource.keep == "yes"`}, map[string]any{"verbs": []any{"get", "update", "patch"}, "resourceKinds": []any{"customresourcedefinitions.apiextensions.k8s.io"}})
	grantReads(t, admin, "versions-all", "walt", all, map[string]any{"verbs": []any{"get", "update", "patch"}, "resourceKinds": []any{"customresourcedefinitions.apiextensions.k8s.io"}})
	grantReads(t, admin, "versions-label", "xena", map[string]any{"verbs": []any{"granular", "granular:metadata"}, "resourceKinds": []any{"shapes.versions.example.com"}})
	permission := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "FieldPermission", "metadata": map[string]any{"name": "shapes-level"},
		"spec": map[string]any{"resources": []any{"shapes.versions.example.com"}, "field": ".level", "permission": "example.com/level", "exclusive": true}}}
	fieldPermissions := schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: "fieldpermissions"}
	if _, err := admin.Resource(fieldPermissions).Create(ctx, permission, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	patch := func(who string, in schema.GroupVersionResource, name, body string) error {
		_, err := dynamic.NewForConfigOrDie(s.as(who)).Resource(in).Namespace("default").Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	scale := func(who string, in schema.GroupVersionResource, name string) error {
		_, err := dynamic.NewForConfigOrDie(s.as(who)).Resource(in).Namespace("default").Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{DryRun: []string{"All"}}, "scale")
		return err
	}
	remove := func(who string, in schema.GroupVersionResource, name string) error {
		return dynamic.NewForConfigOrDie(s.as(who)).Resource(in).Namespace("default").Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{"All"}})
	}
	const note = `{"note":"changed"}`
	s.await("the deny", func() (bool, error) { return remove("vera", v1, "loose") == nil, nil })
	s.await("the exclusive field", func() (bool, error) { return apierrors.IsForbidden(patch("walt", v1, "loose", `{"level":"low"}`)), nil })
	s.await("the right to labels", func() (bool, error) {
		return patch("xena", v1, "loose", `{"metadata":{"labels":{"own":"y"}}}`) == nil, nil
	})
	for _, tc := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"delete what is denied", remove("vera", v1, "kept"), false},
		{"delete what is denied, in the older version", remove("vera", older, "kept"), false},
		{"patch what is denied", patch("vera", v1, "kept", note), false},
		{"patch what is denied, in the older version", patch("vera", older, "kept", note), false},
		{"delete without a deny", remove("walt", v1, "kept"), true},
		{"delete without a deny, in the older version", remove("walt", older, "kept"), true},
		{"write beside an exclusive field", patch("walt", v1, "kept", note), true},
		{"write in a version that drops an exclusive field", patch("walt", older, "kept", note), false},
		{"scale beside an exclusive field", scale("walt", v1, "kept"), true},
		{"scale in a version that drops an exclusive field", scale("walt", older, "kept"), false},
		{"a single label", patch("xena", v1, "kept", `{"metadata":{"labels":{"own":"y"}}}`), true},
		{"a single label in a version that drops more", patch("xena", older, "kept", `{"metadata":{"labels":{"own":"y"}}}`), false},
	} {
		if tc.ok && tc.err != nil || !tc.ok && !apierrors.IsForbidden(tc.err) {
			t.Errorf("%s: %v", tc.name, tc.err)
		}
	}

	reshape := func(who, body string) error {
		_, err := dynamic.NewForConfigOrDie(s.as(who)).Resource(definitions).Patch(ctx, "shapes.versions.example.com", types.JSONPatchType, []byte(body), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	const hide = `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/keep"}]`
	if err := reshape("vera", hide); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), ".keep of version v1 would be hidden from rules") {
		t.Errorf("take a field out of the schema that a deny looks at: %v", err)
	}
	const more = `{"op":"add","path":"/spec/versions/0","value":{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"note":{"type":"string"}}}}}}`
	for name, body := range map[string]string{
		"another version that is preferred": `[` + more + `]`,
		"a version that stores":             `[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`,
		"a version that is not served":      `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`,
		"a webhook":                         `[{"op":"add","path":"/spec/conversion","value":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://localhost:1/"}}}}]`,
	} {
		if err := reshape("vera", body); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "would be hidden from rules") {
			t.Errorf("%s: %v", name, err)
		}
		if err := reshape("walt", body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, body := range map[string]string{
		"a default":              `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/level/default","value":"high"}]`,
		"a field with a default": `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/more","value":{"type":"string","default":"x"}}]`,
		"null":                   `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/keep/nullable","value":true}]`,
		"status":                 `[{"op":"add","path":"/spec/versions/0/subresources/status","value":{}}]`,
		"no scale":               `[{"op":"remove","path":"/spec/versions/0/subresources/scale"}]`,
		"another scale":          `[{"op":"replace","path":"/spec/versions/0/subresources/scale/specReplicasPath","value":".spec.other"}]`,
	} {
		if err := reshape("vera", body); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "and one denies you") {
			t.Errorf("%s: %v", name, err)
		}
		if err := reshape("walt", body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for who, body := range map[string]string{"walt": hide, "vera": `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/more","value":{"type":"string"}}]`} {
		if err := reshape(who, body); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

const cratesDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crates.versions.example.com}
spec:
  group: versions.example.com
  scope: Namespaced
  names: {plural: crates, kind: Crate}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {released: {type: boolean}, status: {type: object, properties: {phase: {type: string}}}}}}
    subresources: {status: {}}
`

// NI-5: the server gives stored objects the defaults of their schema, and lets the main resource write the status of
// one without that subresource. The author of the definition, whom rules deny something, may change neither.
func TestDefinitionsLiftNoDeny(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := dynamic.NewForConfigOrDie(s.admin)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crates := schema.GroupVersionResource{Group: "versions.example.com", Version: "v1", Resource: "crates"}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(cratesDefinition), &definition.Object); err != nil {
		t.Fatal(err)
	}
	_, err := admin.Resource(definitions).Create(ctx, &definition, metav1.CreateOptions{})
	fine(t, "the definition", err)
	s.await("a crate", func() (bool, error) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "versions.example.com/v1", "kind": "Crate", "metadata": map[string]any{"name": "c"}}}
		_, err := admin.Resource(crates).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
		return err == nil, nil
	})
	grantReads(t, admin, "crates", "crates-carol", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"crates.versions.example.com", "customresourcedefinitions.apiextensions.k8s.io"}},
		map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"crates.versions.example.com"}, "deny": true, "where": "!(has(resource.released) && resource.released)"},
		map[string]any{"verbs": []any{"update", "patch"}, "resourceKinds": []any{"crates.versions.example.com/status"}, "deny": true})
	carol := dynamic.NewForConfigOrDie(s.as("crates-carol"))
	dry := []string{"All"}
	remove := func() error {
		return carol.Resource(crates).Namespace("default").Delete(ctx, "c", metav1.DeleteOptions{DryRun: dry})
	}
	status := func(subresource ...string) (bool, error) {
		o, err := carol.Resource(crates).Namespace("default").Patch(ctx, "c", types.MergePatchType, []byte(`{"status":{"phase":"Done"}}`), metav1.PatchOptions{DryRun: dry}, subresource...)
		if err != nil {
			return false, err
		}
		phase, _, err := unstructured.NestedString(o.Object, "status", "phase")
		return phase == "Done", err
	}
	change := func(who dynamic.Interface, body string) error {
		_, err := who.Resource(definitions).Patch(ctx, "crates.versions.example.com", types.JSONPatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	s.await("the rules", func() (bool, error) {
		err := change(carol, `[{"op":"test","path":"/spec/scope","value":"Namespaced"}]`)
		return err == nil, nil
	})
	const (
		fill   = `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/released/default","value":true}]`
		unfill = `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/released/default"}]`
		off    = `[{"op":"remove","path":"/spec/versions/0/subresources/status"}]`
		on     = `[{"op":"add","path":"/spec/versions/0/subresources","value":{"status":{}}}]`
	)
	refusedWith(t, "delete", remove(), "")
	refusedWith(t, "add the default", change(carol, fill), "another default or nullable of .released in version v1 would change what rules see, and one denies you ")
	fine(t, "the admin does", change(admin, fill))
	s.await("the default, in what was stored before", func() (bool, error) { return remove() == nil, nil })
	refusedWith(t, "take it away", change(carol, unfill), "another default or nullable of .released")
	fine(t, "the admin does", change(admin, unfill))
	s.await("no default", func() (bool, error) { return apierrors.IsForbidden(remove()), nil })

	_, err = status("status")
	refusedWith(t, "write the status", err, "")
	if done, err := status(); done || err != nil {
		t.Errorf("the main resource does not write the status: %v, %v", done, err)
	}
	refusedWith(t, "switch the status off", change(carol, off), "another subresource status of version v1 would change which requests write which fields, and one denies you")
	fine(t, "the admin does", change(admin, off))
	s.await("the status, by the main resource", func() (bool, error) { return status() })
	refusedWith(t, "switch it on", change(carol, on), "another subresource status of version v1")
	fine(t, "the admin does", change(admin, on))
}
