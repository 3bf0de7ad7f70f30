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
	bySchema := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &text}}
	closed := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{}}
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
		{"a field less by its name in a map", in(ab), anyMap(a), ".in.b"},
		{"no longer a map of anything", in(anything), in(a), "what is below .in"},
		{"no longer a map by its schema", in(bySchema), in(a), "what is below .in"},
		{"what was never a map", in(closed), in(a), ""},
		{"a map that keeps all", in(anyText), in(open), ""},
		{"a map of anything, then of something", in(anything), in(anyText), "what is below .in.*"},
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
				d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: name == "v1", Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &s}})
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
		{"a version is gone whose schema had more", define(nil, map[string]props{"v1": a, "v2": ab}), define(nil, map[string]props{"v1": a}), ".b of version v2"},
		{"a version more", define(nil, map[string]props{"v1": ab}), define(nil, both), ""},
		{"a version more that drops", define(nil, map[string]props{"v1": ab}), define(nil, less), ".b of version v1"},
		{"versions that differ, as before", define(nil, less), define(nil, less), ""},
		{"stored in another version", define(nil, less), stored(define(nil, less), "v2"), ".b of version v1"},
		{"no longer served", define(nil, less), unserved(define(nil, less), "v1"), ".b of version v1"},
		{"no longer served, nor stored", define(nil, less), unserved(define(nil, less), "v2"), ""},
		{"was not served", unserved(define(nil, less), "v2"), define(nil, both), ""},
		{"stored, and not served", unserved(define(nil, both), "v1"), unserved(define(nil, map[string]props{"v1": a, "v2": ab}), "v1"), ".b of version v1"},
		{"another webhook", define(nil, both), byWebhook(define(nil, both)), "what the webhook of the conversion leaves out"},
		{"the webhook as before", byWebhook(define(nil, both)), byWebhook(define(nil, both)), ""},
		{"no webhook any more", byWebhook(define(nil, less)), define(nil, less), ".b of version v1"},
		{"nothing is dropped", define(ptr.To(true), both), define(ptr.To(true), less), ""},
		{"dropped from now on", define(ptr.To(true), both), define(nil, both), "every field without a schema"},
	} {
		if got := hiddenBy(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	shared := define(nil, map[string]props{})
	shared.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}
	shared.Spec.Validation = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &ab}
	if got := hiddenBy(shared, define(nil, map[string]props{"v1": a})); got != ".b of version v1" {
		t.Errorf("a schema that all versions share: %q", got)
	}
}

func anyMap(of props) props {
	return props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
}

func stored(d *apiextensions.CustomResourceDefinition, version string) *apiextensions.CustomResourceDefinition {
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == version
	}
	return d
}

func unserved(d *apiextensions.CustomResourceDefinition, version string) *apiextensions.CustomResourceDefinition {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == version {
			d.Spec.Versions[i].Served = false
		}
	}
	return d
}

func byWebhook(d *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	d.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: apiextensions.WebhookConverter}
	return d
}
