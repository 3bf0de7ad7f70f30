package fieldperm

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// PO-11: without a schema, maps are compared entry by entry and lists as one value; metadata has its own forms, and
// what the server owns never counts. Null, empty and missing differ.
func TestChangedWithoutSchema(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", "{spec: {a: 1, b: [1, {c: 2}]}}", "{spec: {b: [1, {c: 2}], a: 1}}", ""},
		{"a scalar deep inside", "{spec: {a: {b: {c: 1}}}}", "{spec: {a: {b: {c: 2}}}}", ".spec.a.b.c"},
		{"a new branch is its leaves", "{}", "{spec: {a: {b: 1, c: 2}}}", ".spec.a.b .spec.a.c"},
		{"a branch that goes is its leaves", "{spec: {a: {b: 1}}}", "{}", ".spec.a.b"},
		{"a list is one value", "{spec: {a: [{n: x, v: 1}]}}", "{spec: {a: [{n: x, v: 2}]}}", ".spec.a"},
		{"a map becomes a list", "{spec: {a: {b: 1}}}", "{spec: {a: [1]}}", ".spec.a"},
		{"missing and empty", "{spec: {}}", "{spec: {a: {}}}", ".spec.a"},
		{"missing and null", "{spec: {b: 1}}", "{spec: {b: 1, a: null}}", ".spec.a"},
		{"empty and null", "{spec: {a: {}}}", "{spec: {a: null}}", ".spec.a"},
		{"labels and finalizers", "{metadata: {labels: {a: x}, finalizers: [b, c]}}", "{metadata: {labels: {a: y}, finalizers: [c, d]}}",
			".metadata.finalizers.b .metadata.finalizers.d .metadata.labels.a"},
		{"what the server owns", "{apiVersion: v1, kind: A, metadata: {name: a, uid: b, resourceVersion: '1', generation: 1, managedFields: []}}",
			"{apiVersion: v2, kind: B, metadata: {name: c, uid: d, resourceVersion: '2', generation: 2, managedFields: [1]}}", ""},
		{"what looks like it elsewhere", "{spec: {kind: A, metadata: {uid: a}}}", "{spec: {kind: B, metadata: {uid: b}}}", ".spec.kind .spec.metadata.uid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var old, new map[string]any
			for text, into := range map[string]*map[string]any{tc.old: &old, tc.new: &new} {
				if err := yaml.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			paths, err := Changed(old, new)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, p := range paths {
				var names []string
				for _, e := range p {
					names = append(names, e.Name)
				}
				texts = append(texts, "."+strings.Join(names, "."))
			}
			if got := strings.Join(texts, " "); got != tc.want {
				t.Errorf("changed are %q, want %q", got, tc.want)
			}
		})
	}
}
