package fieldpermissions

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NI-6: the schemas of definitions that are gone are not remembered.
func TestSchemasOfDefinitionsThatAreGone(t *testing.T) {
	defined := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}
	f := newSchemas(onlyNamespaces{}, func(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition { return defined[kind] })
	for i := range 5 {
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: fmt.Sprint("Box", i)}
		d := &apiextensionsv1.CustomResourceDefinition{}
		d.Spec.Group, d.Spec.Names.Kind, d.Spec.Names.Plural = kind.Group, kind.Kind, "boxes"
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}}
		defined[kind.GroupKind()] = d
		if _, err := f.For(kind); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			delete(defined, kind.GroupKind())
		}
	}
	if len(f.custom) != 2 { // the first one, and the last one until another is needed
		t.Errorf("%d schemas are remembered", len(f.custom))
	}
}
