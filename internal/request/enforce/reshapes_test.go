package enforce

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/utils/ptr"
)

type props = apiextensions.JSONSchemaProps

func fieldsOf(fields map[string]props) props { return props{Type: "object", Properties: fields} }

// NI-5: a change of a schema hides what the server drops by it, at any depth, and nothing else.
func TestWhatASchemaHides(t *testing.T) {
	text := props{Type: "string"}
	open := props{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	anyText := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &text}}
	anything := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true}}
	list := func(of props) props {
		return props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
	}
	a, ab := fieldsOf(map[string]props{"a": text}), fieldsOf(map[string]props{"a": text, "b": text})
	in := func(p props) props { return fieldsOf(map[string]props{"in": p}) }
	for _, tc := range []struct {
		name     string
		old, new props
		want     string
	}{
		{"nothing", ab, ab, ""},
		{"a field more", a, ab, ""},
		{"a field less", ab, a, ".b"},
		{"a field less, further in", in(ab), in(a), ".in.b"},
		{"a field less in a list", in(list(ab)), in(list(a)), ".in[].b"},
		{"a field less in a map", in(anyMap(ab)), in(anyMap(a)), ".in.*.b"},
		{"a field by its name in a map", ab, anyText, ""},
		{"all fields are kept", ab, open, ""},
		{"all fields are kept by a map", ab, anything, ""},
		{"no longer all fields", open, ab, "what is below the object"},
		{"no longer all fields, further in", in(open), in(ab), "what is below .in"},
		{"no longer a map", in(anyText), in(a), "what is below .in"},
		{"no longer a list", in(list(ab)), in(text), "what is below .in"},
		{"a list of anything", in(list(ab)), in(open), ""},
		{"no longer an object in it", props{Type: "object", XEmbeddedResource: true, Properties: ab.Properties}, ab, "what is below the object"},
	} {
		if got := dropped(&tc.old, &tc.new, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if dropped(nil, &ab, "") == "" || dropped(&ab, nil, "") != "" || dropped(nil, nil, "") != "" {
		t.Error("without a schema everything is kept")
	}

	define := func(unpruned *bool, versions map[string]props) *apiextensions.CustomResourceDefinition {
		d := &apiextensions.CustomResourceDefinition{}
		d.Spec.PreserveUnknownFields = unpruned
		for _, name := range []string{"v1", "v2"} {
			if s, ok := versions[name]; ok {
				d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{Name: name, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &s}})
			}
		}
		return d
	}
	both, less := map[string]props{"v1": ab, "v2": ab}, map[string]props{"v1": ab, "v2": a}
	for _, tc := range []struct {
		name    string
		was, is *apiextensions.CustomResourceDefinition
		want    string
	}{
		{"the same", define(nil, both), define(nil, both), ""},
		{"one version", define(nil, both), define(nil, less), ".b of version v2"},
		{"a version is gone", define(nil, both), define(nil, map[string]props{"v1": ab}), ""},
		{"nothing is dropped", define(ptr.To(true), both), define(ptr.To(true), less), ""},
		{"dropped from now on", define(ptr.To(true), both), define(nil, both), "every field without a schema"},
	} {
		if got := hiddenBy(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	shared := define(nil, map[string]props{})
	shared.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}}
	shared.Spec.Validation = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &ab}
	if got := hiddenBy(shared, define(nil, map[string]props{"v1": a})); got != ".b of version v1" {
		t.Errorf("a schema that all versions share: %q", got)
	}
}

func anyMap(of props) props {
	return props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
}
