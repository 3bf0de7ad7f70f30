package fieldperm

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// fakeDefaults is defaulting with what makes it hard: a default that depends on another field, two fields that default
// together, and two that default from one another.
func fakeDefaults(obj map[string]interface{}) (map[string]interface{}, error) {
	spec, _ := obj["spec"].(map[string]interface{})
	if spec == nil {
		spec = map[string]interface{}{}
		obj["spec"] = spec
	}
	set := func(m map[string]interface{}, name string, v any) {
		if _, ok := m[name]; !ok {
			m[name] = v
		}
	}
	if spec["level"] == "high" {
		set(spec, "count", int64(9))
	} else {
		set(spec, "count", int64(1))
	}
	if _, a := spec["args"]; !a {
		if _, b := spec["tags"]; !b { // as completions and parallelism of a job
			spec["args"], spec["tags"] = []interface{}{"x"}, []interface{}{"x"}
		}
	}
	colour, _ := spec["colour"].(map[string]interface{})
	limits, _ := spec["limits"].(map[string]interface{})
	if colour == nil && limits != nil { // as dataSource and dataSourceRef of a claim
		spec["colour"] = map[string]interface{}{"secret": limits["mirror"]}
	}
	if limits == nil && colour != nil {
		spec["limits"] = map[string]interface{}{"mirror": colour["secret"]}
	}
	if parts, ok := spec["parts"].([]interface{}); ok {
		for _, p := range parts {
			set(p.(map[string]interface{}), "size", int64(5))
		}
	}
	return obj, nil
}

// FP-7: on create every field that is set counts, except what defaulting gives; what admission adds counts.
func TestCreate(t *testing.T) {
	table, issues := New(Config{Declared: []Declaration{
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/level", Field: mustPath(t, ".spec.level")},
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/count", Field: mustPath(t, ".spec.count")},
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/colour", Field: mustPath(t, ".spec.colour")},
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/limits", Field: mustPath(t, ".spec.limits")},
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/part", Field: mustPath(t, ".spec.parts[].name")},
	}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	const defaults = "args: [x], tags: [x]"
	for _, tc := range []struct {
		name, new string
		holds     string
		want      string
	}{
		{"only identity", "metadata: {name: a, namespace: n, generateName: g}", "", ""},
		{"all defaults", "spec: {count: 1, " + defaults + "}", "", ""},
		{"one is not", "spec: {count: 2, " + defaults + "}", "", "field .spec.count needs granular:ex.com/count (or granular:specification)"},
		{"covered", "spec: {level: high, count: 9, " + defaults + "}", "granular:ex.com/level", ""},
		{"default of what was covered", "spec: {level: high, count: 1, " + defaults + "}", "granular:ex.com/level", "field .spec.count needs granular:ex.com/count (or granular:specification)"},
		{"not covered", "spec: {level: high, count: 9, " + defaults + "}", "", "field .spec.level needs granular:ex.com/level (or granular:specification)"},
		{"default of what is not covered", "spec: {level: high, count: 1, " + defaults + "}", "granular:ex.com/count", "field .spec.level needs granular:ex.com/level (or granular:specification)"},
		{"defaults that come together", "spec: {count: 1, args: [x], tags: [x]}", "", ""},
		{"one of them set", "spec: {count: 1, args: [x], tags: [x, z]}", "", "field .spec.tags[z] needs granular:specification"},
		{"one of them missing", "spec: {count: 1, tags: [x]}", "", "field .spec.args needs granular:specification"},
		{"fields that vouch for each other", "spec: {count: 1, colour: {secret: s}, limits: {mirror: s}, " + defaults + "}", "", "field .spec.colour needs granular:ex.com/colour (or granular:specification)"},
		{"one covered, the other its default", "spec: {count: 1, colour: {secret: s}, limits: {mirror: s}, " + defaults + "}", "granular:ex.com/colour", ""},
		{"default inside of an element", "spec: {count: 1, parts: [{name: a, size: 5}], " + defaults + "}", "granular:ex.com/part", ""},
		{"not the default inside of an element", "spec: {count: 1, parts: [{name: a, size: 6}], " + defaults + "}", "granular:ex.com/part", "field .spec.parts[a].size needs granular:specification"},
		{"element of an uncovered name", "spec: {count: 1, parts: [{name: a, size: 5}], " + defaults + "}", "", "field .spec.parts[a].name needs granular:ex.com/part (or granular:specification)"},
		{"added by admission", "{metadata: {labels: {injected: x}}, spec: {count: 1, " + defaults + "}}", "", "field .metadata.labels[injected] needs granular:label(injected) (or granular:labels, granular:metadata)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decide := func(defaulter func(map[string]interface{}) (map[string]interface{}, error)) Result {
				h := holds(strings.Fields(tc.holds)...)
				return table.Decide(Request{Target: widgetTarget, Check: h.check, Default: defaulter,
					Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, widget(t, tc.new), nil }})
			}
			expect(t, decide(fakeDefaults), tc.want)
			if tc.want != "" && tc.name != "one of them missing" {
				return
			}
			// Without defaulting, or when it fails, the defaults count.
			for _, broken := range []func(map[string]interface{}) (map[string]interface{}, error){
				nil, func(map[string]interface{}) (map[string]interface{}, error) { return nil, errors.New("no") },
			} {
				if r := decide(broken); r.Allowed() != (tc.name == "only identity") {
					t.Errorf("without defaulting: allowed %v, %s", r.Allowed(), r.Reason())
				}
			}
		})
	}
}

// FP-7: a field that defaulting would have set and that is missing was taken away.
func TestCreateWithoutADefault(t *testing.T) {
	table, _ := New(Config{Declared: []Declaration{
		{Source: "crd", Resources: []Resource{widgets}, Permission: "ex.com/tags", Field: mustPath(t, ".spec.tags")},
	}})
	decide := func(text string, verbs ...string) Result {
		h := holds(verbs...)
		return table.Decide(Request{Target: widgetTarget, Check: h.check, Default: fakeDefaults,
			Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, widget(t, text), nil }})
	}
	expect(t, decide("spec: {count: 1, args: [x], tags: [x]}"), "")
	expect(t, decide("spec: {count: 1, args: [x]}"), "field .spec.tags[x] needs granular:ex.com/tags (or granular:specification)")
	expect(t, decide("spec: {count: 1, args: [x]}", "granular:ex.com/tags"), "")
}

// FP-5, FP-7: an exclusive field that defaulting sets is nobody's doing.
func TestCreateExclusive(t *testing.T) {
	table := mustTable(t, permissionObject("c", ".spec.count", "ex.com/count", exclusive, "widgets.example.com"))
	decide := func(text string, verbs ...string) Result {
		h := holds(verbs...)
		return table.Decide(Request{Target: widgetTarget, Mode: General, Check: h.check, Default: fakeDefaults,
			Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, widget(t, text), nil }})
	}
	refused := "field .spec.count needs granular:ex.com/count"
	expect(t, decide("spec: {count: 1}"), "")
	expect(t, decide("spec: {count: 2}"), refused)
	expect(t, decide("spec: {level: high, count: 9}"), "")
	expect(t, decide("spec: {level: high, count: 1}"), refused)
	expect(t, decide("spec: {level: high, count: 1}", "granular:ex.com/count"), "")

	// Being compared with defaults does not make it an update.
	table = mustTable(t, permissionObject("c", ".spec.count", "ex.com/count", exclusiveWhen("!has(oldSelf)"), "widgets.example.com"))
	expect(t, decide("spec: {count: 1}"), "")
	expect(t, decide("spec: {count: 2}"), refused)
}

// The object that is being created stays as it is while its defaults are found out.
func TestCreateLeavesTheObjectAlone(t *testing.T) {
	table := mustTable(t)
	const text = "spec: {count: 1, args: [x], tags: [x], parts: [{name: a, size: 5}]}"
	object := widget(t, text)
	h := holds()
	table.Decide(Request{Target: widgetTarget, Check: h.check, Default: fakeDefaults,
		Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return nil, object, nil }})
	if got := changed(t, widget(t, text), object); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
}
