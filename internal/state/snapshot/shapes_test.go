package snapshot

import (
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func shaped(name string, served, stored bool, fields ...string) apiextensions.CustomResourceDefinitionVersion {
	s := &apiextensions.JSONSchemaProps{Type: "object", Description: "of " + name, Properties: map[string]apiextensions.JSONSchemaProps{}}
	for _, f := range fields {
		s.Properties[f] = apiextensions.JSONSchemaProps{Type: "string", Description: f + " of " + name}
	}
	return apiextensions.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: stored, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: s}}
}

// NI-5: what is read in one version may lack what another one has if their schemas differ and nothing converts them.
func TestLost(t *testing.T) {
	define := func(change func(*apiextensions.CustomResourceDefinitionSpec), versions ...apiextensions.CustomResourceDefinitionVersion) *apiextensions.CustomResourceDefinition {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
		d.Spec.Group, d.Spec.Names.Plural, d.Spec.Versions = "example.com", "widgets", versions
		if change != nil {
			change(&d.Spec)
		}
		return d
	}
	v1, same, less := shaped("v1", true, true, "note", "keep"), shaped("v2", true, false, "note", "keep"), shaped("v1beta1", true, false, "note")
	gr := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for _, tc := range []struct {
		name         string
		d            *apiextensions.CustomResourceDefinition
		read, wanted string
		lost, stored bool
	}{
		{"one version", define(nil, v1), "v1", "v1", false, false},
		{"the same schema", define(nil, v1, same), "v2", "v1", false, false},
		{"less", define(nil, v1, less), "v1beta1", "v1", true, true},
		{"more", define(nil, v1, less), "v1", "v1beta1", true, false},
		{"itself", define(nil, v1, less), "v1beta1", "v1beta1", false, true},
		{"the same beside another", define(nil, v1, same, less), "v2", "v1", false, false},
		{"a version that is not known", define(nil, v1, less), "v3", "v1", true, true},
		{"not served", define(nil, v1, shaped("v1beta1", false, false, "note")), "v1beta1", "v1", false, false},
		{"a webhook converts", define(func(s *apiextensions.CustomResourceDefinitionSpec) {
			s.Conversion = &apiextensions.CustomResourceConversion{Strategy: apiextensions.WebhookConverter}
		}, v1, less), "v1beta1", "v1", false, false},
		{"nothing is dropped", define(func(s *apiextensions.CustomResourceDefinitionSpec) { s.PreserveUnknownFields = true }, v1, less), "v1beta1", "v1", false, false},
	} {
		served := Sources{Shapes: map[schema.GroupResource]Shapes{gr: ShapesOf(tc.d)}}.Served()
		if got := served.Lost(gr, tc.read, tc.wanted); got != tc.lost {
			t.Errorf("%s: lost %v", tc.name, got)
		}
		if got := served.LostInStorage(gr, tc.read); got != tc.stored {
			t.Errorf("%s: lost in storage %v", tc.name, got)
		}
		if served.Differs(gr) != (tc.lost || tc.stored || tc.name == "more" || tc.name == "the same beside another") {
			t.Errorf("%s: differs %v", tc.name, served.Differs(gr))
		}
		if other := (schema.GroupResource{Resource: "pods"}); served.Lost(other, "a", "b") || served.Differs(other) || served.LostInStorage(other, "a") {
			t.Errorf("%s: something is lost of a resource that is built in", tc.name)
		}
	}
	var none *Served
	if none.Lost(schema.GroupResource{}, "a", "b") || none.Differs(schema.GroupResource{}) || none.LostInStorage(schema.GroupResource{}, "a") {
		t.Error("nothing is served, and something is lost")
	}
}
