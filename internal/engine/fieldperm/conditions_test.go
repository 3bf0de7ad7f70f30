package fieldperm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/engine/protectedattr"
)

func evaluate(t *testing.T, expression string, object, oldObject any) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s\n%v", expression, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := program.Eval(map[string]any{"object": object, "oldObject": oldObject})
	if err != nil {
		return true // a Deny that fails denies
	}
	return out.Value().(bool)
}

// PA-8: exclusive fields are visible beforehand, and every write that would be refused is shown as denied.
func TestConditions(t *testing.T) {
	table := mustTable(t,
		permissionObject("a", ".spec.triggerSelfDestruct", "ex.com/trigger", exclusiveWhen("self == true"), "widgets.example.com"),
		permissionObject("b", ".spec.limits[ex.com/a]", "ex.com/limit", exclusive, "widgets.example.com"),
		permissionObject("c", ".spec.parts[].secret", "ex.com/secret", exclusive, "widgets.example.com"),
		permissionObject("d", ".spec.level", "ex.com/level", nil, "widgets.example.com"))
	all := table.Conditions(widgetTarget, nil)
	if len(all) != 3 {
		t.Fatalf("conditions: %+v", all)
	}
	for _, c := range all {
		if errs := validation.IsQualifiedName(c.ID); len(errs) > 0 {
			t.Errorf("%s: %v", c.ID, errs)
		}
	}
	want := `field .spec.triggerSelfDestruct of widgets.example.com may only be changed with granular:ex.com/trigger, by FieldPermission "a", when self == true`
	if all[2].Description != want {
		t.Errorf("%s", all[2].Description)
	}
	if got := table.Conditions(widgetTarget, holds("granular:ex.com/trigger").check); len(got) != 2 {
		t.Errorf("somebody with the right is shown %+v", got)
	}
	if got := table.Conditions(podTarget, nil); got != nil {
		t.Errorf("pods: %+v", got)
	}
	for _, tc := range []struct {
		old, new string
		exact    bool // whether what is allowed is shown as allowed too
	}{
		{"{}", "spec: {triggerSelfDestruct: true}", true},
		{"{}", "spec: {triggerSelfDestruct: false}", true},
		{"spec: {triggerSelfDestruct: true}", "spec: {level: x}", true},
		{"spec: {triggerSelfDestruct: false}", "spec: {triggerSelfDestruct: true}", true},
		{"spec: {limits: {ex.com/a: '1'}}", "spec: {limits: {ex.com/a: '2'}}", true},
		{"spec: {limits: {ex.com/a: '1'}}", "spec: {limits: {ex.com/a: '1', b: c}}", true},
		{"spec: {limits: {ex.com/a: '1'}}", "spec: {level: z}", true},
		{"", "spec: {limits: {ex.com/a: '1'}}", true},
		{"", "spec: {level: z}", true},
		{"spec: {parts: [{name: a}]}", "spec: {parts: [{name: a, secret: s}]}", false},
		{"spec: {parts: [{name: a}]}", "spec: {parts: [{name: a, size: 1}]}", false},
	} {
		h := holds()
		old, new := widget(t, tc.old), widget(t, tc.new)
		refused := !table.Decide(Request{Target: widgetTarget, Mode: General, Check: h.check,
			Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return old, new, nil }}).Allowed()
		var before any
		if old != nil {
			before = old.AsValue().Unstructured()
		}
		denied := false
		for _, c := range all {
			denied = denied || evaluate(t, c.Expression, new.AsValue().Unstructured(), before)
		}
		if refused && !denied || tc.exact && denied != refused {
			t.Errorf("%s -> %s: refused %v, shown as denied %v", tc.old, tc.new, refused, denied)
		}
	}
}

// PA-8: of a map of which only some entries are guarded, only these are shown as denied.
func TestConditionsOfEntries(t *testing.T) {
	table := mustTable(t, permissionObject("p", ".spec.containers[].securityContext.appArmorProfile", "ex.com/p", exclusive, "pods"))
	for _, c := range table.Conditions(deploymentTarget, nil) {
		if !strings.Contains(c.Description, "annotations[] of") {
			continue
		}
		template := func(annotations any) any {
			return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}}
		}
		for _, tc := range []struct {
			old, new any
			want     bool
		}{
			{template(map[string]any{}), template(map[string]any{keyOfWeb: "x"}), true},
			{template(map[string]any{keyOfWeb: "x"}), template(map[string]any{keyOfWeb: "y"}), true},
			{template(map[string]any{keyOfWeb: "x"}), map[string]any{}, true},
			{nil, template(map[string]any{keyOfWeb: "x"}), true},
			{nil, template(map[string]any{"other": "x"}), false},
			{template(map[string]any{keyOfWeb: "x"}), template(map[string]any{keyOfWeb: "x", "other": "x"}), false},
			{template(map[string]any{"other": "x"}), template(map[string]any{}), false},
		} {
			if got := evaluate(t, c.Expression, tc.new, tc.old); got != tc.want {
				t.Errorf("%v -> %v: %v by %s", tc.old, tc.new, got, c.Expression)
			}
		}
		return
	}
	t.Error("no condition is about annotations")
}

const keyOfWeb = "container.apparmor.security.beta.kubernetes.io/web"

// PA-8, CA-1: any number of exclusive fields fits a set of conditions.
func TestConditionLimits(t *testing.T) {
	var declared []Declaration
	for i := range 1000 {
		declared = append(declared, Declaration{Source: "crd", Resources: []Resource{widgets}, Permission: fmt.Sprintf("ex.com/p%d", i),
			Field: Path{Field("spec"), Field(fmt.Sprintf("%s%d", strings.Repeat("field", 20), i))}, Exclusive: true})
	}
	table, issues := New(Config{Declared: declared})
	if len(issues) > 0 {
		t.Fatal(issues[0])
	}
	all := table.Conditions(widgetTarget, nil)
	if len(all) == 0 || len(all) > protectedattr.MaxConditions {
		t.Fatalf("%d conditions", len(all))
	}
	for _, c := range all {
		if len(c.Expression) > protectedattr.MaxExpression || len(c.Description) > protectedattr.MaxDescription {
			t.Errorf("%s: expression %d, description %d", c.ID, len(c.Expression), len(c.Description))
		}
	}
}
