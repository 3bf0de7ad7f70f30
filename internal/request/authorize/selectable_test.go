package authorize

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/snapshot"
)

var update = flag.Bool("update", false, "write what is generated from the code")

// CA-16: the table of built-in fields, as a file. A test of the server holds that against the storage of every
// resource: go test ./internal/request/authorize -run SelectableFieldsAreWritten -update.
func TestSelectableFieldsAreWritten(t *testing.T) {
	table := map[string]any{}
	for resource, fields := range builtinFields {
		table[resource.String()] = fields
	}
	want, err := json.MarshalIndent(table, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/selectable.json"
	if *update {
		if err := os.WriteFile(file, append(want, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != string(want)+"\n" {
		t.Errorf("%s is not what the table says: %v", file, err)
	}
}

// cars is a definition whose version v1 can be selected by some fields, and v2 by none.
func cars(conversion apiextensions.ConversionStrategyType) *apiextensions.CustomResourceDefinition {
	schema := &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Properties: map[string]apiextensions.JSONSchemaProps{
		"spec": {Properties: map[string]apiextensions.JSONSchemaProps{"color": {Type: "string"}, "seats": {Type: "integer"}, "open": {Type: "boolean"}, "any": {Type: "string", XIntOrString: true}}}}}}
	return &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "cars.example.com"}, Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "example.com", Names: apiextensions.CustomResourceDefinitionNames{Plural: "cars", Kind: "Car"},
		Conversion: &apiextensions.CustomResourceConversion{Strategy: conversion},
		Versions: []apiextensions.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Storage: true, Schema: schema, SelectableFields: []apiextensions.SelectableField{
				{JSONPath: ".spec.color"}, {JSONPath: ".spec.seats"}, {JSONPath: ".spec.open"}, {JSONPath: ".spec.any"}, {JSONPath: ".spec.missing"}, {JSONPath: ".spec['color']"}}},
			{Name: "v2", Served: true, Schema: schema},
		}}}
}

// CA-16: every built-in kind and every custom one can be read by the fields that it can be selected by, and by no
// others.
func TestSelectableFields(t *testing.T) {
	index := world(t, []policyv1alpha1.PolicyRule{
		{Verbs: []string{"list"}, ResourceKinds: []string{"cars.example.com"}, Where: `resource.spec.color == "red"`},
		{Verbs: []string{"watch"}, ResourceKinds: []string{"cars.example.com"}, Where: `resource.spec.seats == 4 && resource.spec.open == true`},
		{Verbs: []string{"list"}, ResourceKinds: []string{"jobs.batch"}, Where: `resource.status.succeeded == 1`},
		{Verbs: []string{"list"}, ResourceKinds: []string{"pods"}, Where: `resource.spec.hostNetwork == true`},
		{Verbs: []string{"list"}, ResourceKinds: []string{"events.events.k8s.io"}, Where: `resource.regarding.name == "a"`},
		{Verbs: []string{"list"}, ResourceKinds: []string{"podcertificaterequests.certificates.k8s.io"}, Where: `resource.spec.nodeName == "n"`},
	})
	for _, tc := range []struct {
		verb       string
		resource   schema.GroupVersionResource
		selector   string
		conversion apiextensions.ConversionStrategyType
		allowed    bool
	}{
		{"list", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.color=red", apiextensions.NoneConverter, true},
		{"list", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.color=blue", apiextensions.NoneConverter, false},
		{"list", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.color!=red", apiextensions.NoneConverter, false},
		{"list", schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "cars"}, "spec.color=red", apiextensions.NoneConverter, false},
		{"list", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.color=red", apiextensions.WebhookConverter, false},
		{"list", schema.GroupVersionResource{Group: "other.com", Version: "v1", Resource: "cars"}, "spec.color=red", apiextensions.NoneConverter, false},
		{"watch", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.seats=4,spec.open=true", apiextensions.NoneConverter, true},
		{"watch", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}, "spec.seats=4", apiextensions.NoneConverter, false},
		{"list", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "status.successful=1", "", true},
		{"list", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "status.successful=2", "", false},
		{"list", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "spec.hostNetwork=true", "", true},
		{"list", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "spec.hostNetwork=false", "", false},
		{"list", schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, "regarding.name=a", "", true},
		{"list", schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, "involvedObject.name=a", "", false},
		{"list", schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "podcertificaterequests"}, "spec.nodeName=n", "", true},
	} {
		from := snapshot.Sources{Selectable: snapshot.SelectableFields([]*apiextensions.CustomResourceDefinition{cars(tc.conversion)})}
		store := storeWith(t, &published{index: index, served: from.Served()})
		attrs := asks(tc.verb)
		attrs.APIGroup, attrs.APIVersion, attrs.Resource = tc.resource.Group, tc.resource.Version, tc.resource.Resource
		attrs.FieldSelectorRequirements = fields.ParseSelectorOrDie(tc.selector).Requirements()
		if d, reason, _ := tiers(t, store).Authorize(t.Context(), attrs); (d == authorizer.DecisionAllow) != tc.allowed {
			t.Errorf("%s %v by %s, conversion %q: %s (%s), want allowed %v", tc.verb, tc.resource, tc.selector, tc.conversion, d, reason, tc.allowed)
		}
	}
	var keys []string
	for _, f := range snapshot.SelectableFields([]*apiextensions.CustomResourceDefinition{cars(apiextensions.NoneConverter)})[schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cars"}] {
		keys = append(keys, f.Key)
	}
	if !slices.Equal(keys, []string{"spec.color", "spec.seats", "spec.open"}) {
		t.Errorf("selectable: %v", keys)
	}
}

// HF-5: the keys of field selectors are known by the fields that they stand for.
func TestSelectedField(t *testing.T) {
	for _, tc := range []struct {
		resource, key string
		custom        bool
		want          string // empty if it is not known
	}{
		{"jobs.batch", "status.successful", false, ".status.succeeded"}, {"jobs.batch", "status.succeeded", false, ""}, {"jobs.batch", "metadata.name", false, ".metadata.name"},
		{"pods", "spec.nodeName", false, ".spec.nodeName"}, {"pods", "spec.host", false, ""}, {"configmaps", "metadata.namespace", false, ".metadata.namespace"}, {"configmaps", "data", false, ""},
		{"events.events.k8s.io", "regarding.name", false, ".regarding.name"}, {"events", "source", false, ""},
		{"cars.example.com", "spec.color", true, ".spec.color"}, {"cars.example.com", "spec.odd:name", true, `.spec["odd:name"]`},
	} {
		at, known := SelectedField(schema.ParseGroupResource(tc.resource), tc.key, tc.custom)
		if known != (tc.want != "") || at.String() != tc.want {
			t.Errorf("%s by %s: %s, %v", tc.resource, tc.key, at, known)
		}
	}
}
