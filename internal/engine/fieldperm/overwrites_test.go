package fieldperm

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

const rollbackKey = "deprecated.deployment.rollback.to"

// NI-4: a right to annotations does not include one by which a controller overwrites other fields.
func TestOverwrites(t *testing.T) {
	at := func(key string) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "1"}}}
	}
	none := &appsv1.Deployment{}
	const field = "field .metadata.annotations[" + rollbackKey + "] needs granular:"
	plain := mustTable(t)
	node := mustTable(t, permissionObject("n", ".spec.nodeName", "ex.com/node", exclusive, "pods"))
	template := mustTable(t, permissionObject("t", ".spec.template", "ex.com/template", nil, "deployments.apps"),
		permissionObject("i", ".spec.template.spec.hostname", "ex.com/hostname", nil, "deployments.apps"))
	other := mustTable(t, permissionObject("a", ".metadata.annotations[x]", "ex.com/x", exclusiveWhen("self == true"), "deployments.apps"))
	for _, tc := range []struct {
		name     string
		table    *Table
		mode     Mode
		old, new runtime.Object
		holds    []string
		want     string
	}{
		{"annotations alone", plain, Granular, none, at(rollbackKey), []string{"granular:annotations"}, field + "specification"},
		{"removing it", plain, Granular, at(rollbackKey), none, []string{"granular:metadata"}, field + "specification"},
		{"one annotation and the specification", plain, Granular, none, at(rollbackKey), []string{"granular:annotation(" + rollbackKey + ")", "granular:specification"}, field + "annotations (or granular:metadata)"},
		{"annotations and the specification", plain, Granular, none, at(rollbackKey), []string{"granular:annotations", "granular:specification"}, ""},
		{"the specification alone", plain, Granular, none, at(rollbackKey), []string{"granular:specification"}, field + "annotation(" + rollbackKey + ") (or granular:annotations, granular:metadata)"},
		{"another annotation", plain, Granular, none, at("x"), []string{"granular:annotations"}, ""},
		{"on a new object", plain, Granular, nil, at(rollbackKey), []string{"granular:annotations"}, field + "specification"},
		{"left as it is", plain, Granular, at(rollbackKey), at(rollbackKey), nil, ""},
		{"a right to the template", template, Granular, none, at(rollbackKey), []string{"granular:annotations", "granular:ex.com/template"}, ""},
		{"a right to a part of the template", template, Granular, none, at(rollbackKey), []string{"granular:annotations", "granular:ex.com/hostname"}, field + "ex.com/template (or granular:specification)"},
		{"the general verb", plain, General, none, at(rollbackKey), nil, ""},
		{"the general verb, and an exclusive field of the template", node, General, none, at(rollbackKey), nil, field + "ex.com/node"},
		{"that, with its permission", node, General, none, at(rollbackKey), []string{"granular:ex.com/node"}, ""},
		{"that, and single fields", node, Granular, none, at(rollbackKey), []string{"granular:ex.com/node", "granular:annotations"}, field + "specification"},
		{"the general verb, and an exclusive annotation", other, General, none, at(rollbackKey), nil, field + "ex.com/x"},
		{"the general verb, and another value of an exclusive annotation", other, General, none, at("x"), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			same := func(m map[string]interface{}) (map[string]interface{}, error) { return m, nil }
			expect(t, tc.table.Decide(Request{Target: deploymentTarget, Mode: tc.mode, Check: holds(tc.holds...).check, Default: same, Objects: objects(t, tc.old, tc.new)}), tc.want)
		})
	}
	expect(t, plain.Decide(Request{Target: Target{Resource: Resource{"apps", "daemonsets"}}, Mode: Granular, Check: holds("granular:annotations").check,
		Objects: objects(t, &appsv1.DaemonSet{}, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rollbackKey: "1"}}})}), "")
	expect(t, plain.Decide(Request{Target: Target{Resource: Resource{"flowcontrol.apiserver.k8s.io", "flowschemas"}}, Mode: Granular, Check: holds("granular:annotations").check,
		Objects: objects(t, &flowcontrolv1.FlowSchema{}, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}})}),
		"field .metadata.annotations["+flowcontrolv1.AutoUpdateAnnotationKey+"] needs granular:specification")
}

// FP-16: the places that set a field exist, as does the field.
func TestTablesNameFields(t *testing.T) {
	kinds := map[Resource]schema.GroupVersionKind{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if r := (Resource{plural.Group, plural.Resource}); gvk.Version == "v1" {
			kinds[r] = gvk
		}
	}
	exists := func(r Resource, p Path) {
		t.Helper()
		if r.Group == "apiregistration.k8s.io" || r == revisions && p[0].Name == "data" {
			return // it has no schema here
		}
		object, err := scheme.Scheme.New(kinds[r])
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		of, _ := typeOf(t, object)
		if err := CheckPath(p, of); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	for _, table := range []map[Resource][]copied{spellings, derived, overwrites} {
		for r, list := range table {
			for _, c := range list {
				exists(r, c.to)
				exists(r, c.from)
			}
		}
	}
	for r, list := range carriers {
		for _, carried := range list {
			for _, c := range carried.copied {
				exists(carried.inner, c.to)
				exists(r, c.from)
			}
		}
	}
}

// PO-11: what a label or an annotation has a controller overwrite counts as changed.
func TestOverwritten(t *testing.T) {
	key := annotation(rollbackKey)
	for _, tc := range []struct {
		name    string
		of      Resource
		changed []Path
		want    []string
	}{
		{"a rollback", deploymentTarget.Resource, []Path{annotation("x"), key}, []string{".spec.template", ".metadata.annotations"}},
		{"all annotations", deploymentTarget.Resource, []Path{annotationsPath}, []string{".spec.template", ".metadata.annotations"}},
		{"other annotations", deploymentTarget.Resource, []Path{annotation("x")}, nil},
		{"of another kind", pods, []Path{key}, nil},
	} {
		var got []string
		for _, p := range Overwritten(tc.of, tc.changed) {
			got = append(got, p.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
