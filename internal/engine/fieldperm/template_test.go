package fieldperm

import (
	"slices"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

func fieldsOf(table *Table, r Resource, permission string) (all []string) {
	for _, e := range table.For(r) {
		if e.Permission == permission {
			all = append(all, e.Field)
		}
	}
	return all
}

// FP-19: a permission on a field of pods holds in the templates of custom resources, those of each version.
func TestCustomTemplates(t *testing.T) {
	templates := []Template{{widgets, "v1", mustPath(t, ".spec.config")}, {widgets, "v2", mustPath(t, ".spec.parts[].template")}}
	hidden := func(s *policyv1alpha1.FieldPermissionSpec) { s.ReadExclusive = true }
	table, issues := New(Config{Templates: templates, FieldPermissions: fps(
		permissionObject("n", ".spec.nodeName", "ex.com/node", exclusive, "pods"),
		permissionObject("l", ".metadata.labels[x]", "ex.com/label", exclusive, "*"),
		permissionObject("e", ".spec.hostname", "ex.com/hostname", hidden, "pods"),
		permissionObject("s", ".status.phase", "ex.com/phase", exclusive, "pods"),
		permissionObject("c", ".spec.storageClassName", "ex.com/class", exclusive, "persistentvolumeclaims"))})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	for permission, want := range map[string][]string{
		"ex.com/node":  {".spec.config.spec.nodeName", ".spec.parts[].template.spec.nodeName"},
		"ex.com/phase": nil,
	} {
		if got := fieldsOf(table, widgets, permission); !slices.Equal(got, want) {
			t.Errorf("%s: %q", permission, got)
		}
	}
	// What a template carries in turn is in it, too.
	if got := fieldsOf(table, widgets, "ex.com/class"); len(got) != 4 || got[1] != ".spec.config.spec.volumes[].ephemeral.volumeClaimTemplate.spec.storageClassName" {
		t.Errorf("%q", got)
	}
	if got := fieldsOf(table, widgets, "nodeAssignment"); len(got) != 2 {
		t.Errorf("what is shipped for pods: %q", got)
	}
	if got := fieldsOf(table, Resource{"example.com", "gadgets"}, "ex.com/node"); got != nil {
		t.Errorf("another resource: %q", got)
	}
	var hiddenIn []string
	for _, h := range table.Hidden(widgets) {
		hiddenIn = append(hiddenIn, h.Field.String())
	}
	if want := []string{".spec.config.spec.hostname", ".spec.parts[].template.spec.hostname"}; !slices.Equal(hiddenIn, want) {
		t.Errorf("hidden are %q", hiddenIn)
	}

	old, with := widget(t, "spec: {level: a, config: {spec: {x: y}}}"), widget(t, "spec: {level: a, config: {spec: {x: y, nodeName: n}}}")
	label := widget(t, "spec: {level: a, config: {metadata: {labels: {x: y}}, spec: {x: y}}}")
	v1, v2 := Target{Resource: widgets, Version: "v1"}, Target{Resource: widgets, Version: "v2"}
	expect(t, table.Decide(Request{Target: v1, Mode: General, Check: holds().check, Objects: pairOf(old, with)}), "field .spec.config.spec.nodeName needs granular:ex.com/node")
	expect(t, table.Decide(Request{Target: v1, Mode: General, Check: holds("granular:ex.com/node").check, Objects: pairOf(old, with)}), "")
	expect(t, table.Decide(Request{Target: v1, Mode: General, Check: holds().check, Objects: pairOf(old, label)}), "field .spec.config.metadata.labels[x] needs granular:ex.com/label")
	expect(t, table.Decide(Request{Target: v2, Mode: General, Check: holds().check, Objects: pairOf(old, with)}), "")
	// A version that nothing is known of has those of all.
	expect(t, table.Decide(Request{Target: Target{Resource: widgets, Version: "v3"}, Mode: General, Check: holds().check, Objects: pairOf(old, with)}), "field .spec.config.spec.nodeName needs granular:ex.com/node")

	// A right to the field of pods gives it in the template of the outer resource.
	old, with, label = widget(t, "spec: {level: a}"), widget(t, "spec: {level: a, work: {spec: {nodeName: n}}}"), widget(t, "spec: {level: a, work: {metadata: {labels: {x: y}}}}")
	table = mustTableOf(t, Config{Templates: []Template{{widgets, "", mustPath(t, ".spec.work")}}, FieldPermissions: fps(permissionObject("n", ".spec.nodeName", "ex.com/node", nil, "pods"))})
	expect(t, table.Decide(Request{Target: v1, Mode: Granular, Check: holds("granular:ex.com/node").check, Objects: pairOf(old, with)}), "")
	expect(t, table.Decide(Request{Target: v1, Mode: Granular, Check: holds("granular:ex.com/node").check, Objects: pairOf(old, label)}), "field .spec.work.metadata.labels[x] needs granular:specification")
}

func mustTableOf(t *testing.T, c Config) *Table {
	t.Helper()
	table, issues := New(c)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	return table
}

// FP-19: a FieldPermission names templates for itself. If one of them cannot be read, nobody knows where else it
// withholds.
func TestNamedTemplates(t *testing.T) {
	named := func(exclusive bool, templates ...policyv1alpha1.FieldPermissionTemplate) *policyv1alpha1.FieldPermission {
		return permissionObject("n", ".spec.nodeName", "ex.com/node", func(s *policyv1alpha1.FieldPermissionSpec) { s.Exclusive, s.Templates = exclusive, templates }, "pods")
	}
	config := policyv1alpha1.FieldPermissionTemplate{Resource: "widgets.example.com", Field: ".spec.config"}
	table := mustTableOf(t, Config{FieldPermissions: fps(named(true, config), permissionObject("o", ".spec.hostname", "ex.com/hostname", exclusive, "pods"))})
	if got := fieldsOf(table, widgets, "ex.com/node"); !slices.Equal(got, []string{".spec.config.spec.nodeName"}) {
		t.Errorf("%q", got)
	}
	if got := fieldsOf(table, widgets, "ex.com/hostname"); got != nil {
		t.Errorf("another permission looks into the template: %q", got)
	}
	old, with := widget(t, "spec: {config: {spec: {x: y}}}"), widget(t, "spec: {config: {spec: {x: y, nodeName: n}}}")
	expect(t, table.Decide(Request{Target: Target{Resource: widgets, Version: "v1"}, Mode: General, Check: holds().check, Objects: pairOf(old, with)}), "field .spec.config.spec.nodeName needs granular:ex.com/node")
	both := mustTableOf(t, Config{Templates: []Template{{widgets, "", mustPath(t, ".spec.config")}}, FieldPermissions: fps(named(true, config))})
	if got := fieldsOf(both, widgets, "ex.com/node"); !slices.Equal(got, []string{".spec.config.spec.nodeName"}) {
		t.Errorf("declared twice: %q", got)
	}
	for _, bad := range []policyv1alpha1.FieldPermissionTemplate{{}, {Resource: "*", Field: ".spec"}, {Resource: "widgets.example.com", Field: "spec"},
		{Resource: "widgets.example.com", Field: ".metadata.annotations"}} {
		table, issues := New(Config{FieldPermissions: fps(named(true, config, bad))})
		if len(issues) != 1 || table.Unreadable(Resource{"", "configmaps"}) == "" {
			t.Errorf("%+v: %v", bad, issues)
		}
		if table, issues = New(Config{FieldPermissions: fps(named(false, bad))}); len(issues) != 1 || table.Unreadable(widgets) != "" {
			t.Errorf("%+v, of one that withholds nothing: %v", bad, issues)
		}
	}
	if _, issues := New(Config{FieldPermissions: fps(permissionObject("n", ".data", "ex.com/data", func(s *policyv1alpha1.FieldPermissionSpec) {
		s.Templates = []policyv1alpha1.FieldPermissionTemplate{config}
	}, "configmaps"))}); len(issues) != 1 {
		t.Errorf("templates of a permission that is not about pods: %v", issues)
	}
	many := make([]policyv1alpha1.FieldPermissionTemplate, MaxTemplates+1)
	for i := range many {
		many[i] = config
	}
	if all, err := templatesOf(many); err == nil || len(all) != MaxTemplates {
		t.Errorf("%d templates: %v", len(all), err)
	}
	if c := CarriersOf(Template{widgets, "", mustPath(t, ".spec.config")}); !c.Carry(widgets, pods) || !c.Carry(widgets, claims) || c.Carry(pods, widgets) || carriers.Carry(widgets, pods) {
		t.Error("what a widget carries")
	}
}
