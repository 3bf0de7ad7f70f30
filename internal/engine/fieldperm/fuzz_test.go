package fieldperm

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// FuzzBodies: no pair of bodies makes a comparison panic; an object never differs from itself; what differs needs a
// permission; and the exclusive places inside of any value are found whatever is around them.
func FuzzBodies(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"spec":{"level":"a"}}`, `{"spec":{"config":{"trigger":true}}}`},
		{`{"spec":{"parts":[{"name":"a"},{"name":"a"}]}}`, `{"spec":{"parts":[{"name":"a","size":1},null,7]}}`},
		{`{"spec":{"ports":[{"port":1}]}}`, `{"spec":{"ports":[{"port":1,"protocol":"TCP"},{"protocol":"UDP"}]}}`},
		{`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"a":1},"finalizers":[{}]}}`},
		{`{"spec":[]}`, `{"spec":{"tags":["a","a",null]}}`},
		{`{"spec":{"config":[[{"trigger":1}]]}}`, `{"spec":{"config":{"trigger":{"trigger":0}}}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	table, issues := New(Config{Declared: []Declaration{
		{Source: "x", Resources: []Resource{widgets}, Permission: "ex.com/trigger", Field: mustPath(f, ".spec.config.trigger"), Exclusive: true},
		{Source: "x", Resources: []Resource{widgets}, Permission: "ex.com/secret", Field: mustPath(f, ".spec.parts[].secret"), Exclusive: true},
		{Source: "x", Resources: []Resource{widgets}, Permission: "ex.com/arg", Field: mustPath(f, ".spec.args[x]"), Exclusive: true},
	}})
	if len(issues) > 0 {
		f.Fatal(issues)
	}
	like := widget(f, "{}")
	f.Fuzz(func(t *testing.T, before, after string) {
		var old, new map[string]interface{}
		if json.Unmarshal([]byte(before), &old) != nil || json.Unmarshal([]byte(after), &new) != nil || old == nil || new == nil {
			return
		}
		as := func(m map[string]interface{}) *typed.TypedValue {
			return typed.AsTypedUnvalidated(value.NewValueInterface(m), like.Schema(), like.TypeRef())
		}
		for _, same := range []map[string]interface{}{old, new} {
			if paths, err := changedFields(as(same), as(same)); err != nil || len(paths) > 0 {
				t.Fatalf("differs from itself in %v, %v", paths, err)
			}
		}
		paths, err := changedFields(as(old), as(new))
		if err != nil {
			t.Fatal(err)
		}
		decide := func(mode Mode) Result {
			h := holds()
			return table.Decide(Request{Target: widgetTarget, Mode: mode, Check: h.check,
				Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return as(old), as(new), nil }})
		}
		if r := decide(Granular); r.Allowed() != (len(paths) == 0) {
			t.Fatalf("changed %v, allowed %v: %s", paths, r.Allowed(), r.Reason())
		}
		if trigger(old) != trigger(new) {
			if r := decide(General); r.Allowed() || !strings.Contains(r.Reason(), "field .spec") {
				t.Fatalf("the trigger went from %s to %s: %s", trigger(old), trigger(new), r.Reason())
			}
		}
	})
}

// trigger is the value of .spec.config.trigger as JSON.
func trigger(m map[string]interface{}) string {
	spec, _ := m["spec"].(map[string]interface{})
	config, _ := spec["config"].(map[string]interface{})
	v, ok := config["trigger"]
	if !ok {
		return ""
	}
	text, _ := json.Marshal(v)
	return string(text)
}
