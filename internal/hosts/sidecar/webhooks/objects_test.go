package webhooks

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SC-18: numbers of custom resources are what they are in the API server: integers are int64, wherever they stand, and
// only what is not an integer is a float.
func TestIntegersStayIntegers(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	object, err := (&Objects{}).read([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","spec":{"n":9007199254740993,"deep":[{"n":-9223372036854775808}],"f":1.5}}`), kind)
	if err != nil {
		t.Fatal(err)
	}
	content := object.(*unstructured.Unstructured).Object
	if n, _, err := unstructured.NestedInt64(content, "spec", "n"); err != nil || n != 9007199254740993 {
		t.Errorf("%d, %v", n, err)
	}
	list, _, err := unstructured.NestedSlice(content, "spec", "deep")
	if err != nil || list[0].(map[string]any)["n"] != int64(-9223372036854775808) {
		t.Errorf("%v, %v", list, err)
	}
	if f, _, err := unstructured.NestedFloat64(content, "spec", "f"); err != nil || f != 1.5 {
		t.Errorf("%v, %v", f, err)
	}
}
