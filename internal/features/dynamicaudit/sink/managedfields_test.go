package sink

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func fields() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: "m,}", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:managedFields":{}}}`)}}, {Manager: "n"}}
}

// DA-7: what is left is byte for byte what upstream's encoder writes for the object without managed fields.
func TestManagedFieldsAreCutOut(t *testing.T) {
	pod := func(name string, with bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"managedFields": "mine", "metadata": "x"}}}
		if with {
			p.ManagedFields = fields()
		}
		return p
	}
	row := func(with bool) metav1.TableRow {
		return metav1.TableRow{Cells: []any{"a", nil, 1.5}, Object: runtime.RawExtension{Object: pod("row", with)}}
	}
	for name, object := range map[string]func(with bool) any{
		"object": func(with bool) any { return pod("p", with) },
		"nothing but managed fields": func(with bool) any {
			m := map[string]any{}
			if with {
				m["managedFields"] = fields()
			}
			return map[string]any{"metadata": m}
		},
		"first of several": func(with bool) any {
			m := map[string]any{"name": "z"}
			if with {
				m["managedFields"] = fields()
			}
			return map[string]any{"metadata": m, "zzz": []int{1}}
		},
		"list":  func(with bool) any { return &corev1.PodList{Items: []corev1.Pod{*pod("a", with), *pod("b", with)}} },
		"table": func(with bool) any { return &metav1.Table{Rows: []metav1.TableRow{row(with), row(with)}} },
		"elsewhere": func(bool) any {
			return map[string]any{"managedFields": 1, "spec": map[string]any{"metadata": map[string]any{"managedFields": []int{1}}}, "metadata": []any{map[string]any{"managedFields": 1}}}
		},
	} {
		for _, indent := range []string{"", "  "} {
			encode := func(with bool) []byte {
				text, err := json.MarshalIndent(object(with), "", indent)
				if err != nil {
					t.Fatal(err)
				}
				return append(text, '\n')
			}
			have := &runtime.Unknown{Raw: encode(true)}
			before := string(have.Raw)
			got, want := compact(t, withoutManagedFields(have).Raw), compact(t, encode(false))
			if got != want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
			if string(have.Raw) != before {
				t.Errorf("%s: the object itself was changed", name)
			}
		}
	}
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return b.String()
}

func TestManagedFieldsOfOddBodies(t *testing.T) {
	for _, raw := range []string{"", "{", `"managedFields"`, `{"metadata":{"managedFields":`, `{"metadata":{"managedFields":1,"managedFields":2,"a":3}}`, `[{"metadata":{"managedFields":1}}]`} {
		if got := withoutManagedFields(&runtime.Unknown{Raw: []byte(raw)}); string(got.Raw) != raw {
			t.Errorf("%s became %s", raw, got.Raw)
		}
	}
	if withoutManagedFields(nil) != nil {
		t.Error("nil became something")
	}
}

// FuzzManagedFields: what is left is JSON if it was JSON, has none where upstream looks, and is left alone otherwise.
func FuzzManagedFields(f *testing.F) {
	f.Add(`{"metadata":{"managedFields":[{"a":1}],"name":"x"},"items":[{"metadata":{"managedFields":[]}}],"rows":[{"object":{"metadata":{"managedFields":1}}}]}`)
	f.Add(`{"metadata" : { "name" : 1 , "managedFields" : null } }`)
	f.Fuzz(func(t *testing.T, raw string) {
		got := withoutManagedFields(&runtime.Unknown{Raw: []byte(raw)}).Raw
		if !json.Valid([]byte(raw)) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s became %s, which is not JSON", raw, got)
		}
		again := withoutManagedFields(&runtime.Unknown{Raw: got}).Raw
		if string(again) != string(got) {
			t.Fatalf("%s became %s, then %s", raw, got, again)
		}
	})
}
