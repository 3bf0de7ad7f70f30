package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const wheels = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"wheels.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
 "names":{"plural":"wheels","singular":"wheel","kind":"Wheel","listKind":"WheelList"},"versions":[{"name":"v1","served":true,"storage":true,
 "subresources":{"status":{},"scale":{"specReplicasPath":".spec.count","statusReplicasPath":".status.count","labelSelectorPath":%q}},
 "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
  "spec":{"type":"object","properties":{"count":{"type":"integer"},"pin":{"type":"string"},"color":{"type":"string"}}},
  "status":{"type":"object","properties":{"count":{"type":"integer"},"selector":{"type":"string"}}}}}}}]}}`

// HF-1, HF-2: what a Scale is made of cannot be hidden, and is not shown by one that is defined later.
func TestScalesOfHiddenFields(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "scales")
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/wheels.example.com"
	f.apply(t, definition, fmt.Sprintf(wheels, ".status.selector"))
	f.settled(t, "the custom resource", func() bool {
		return f.as(t, "admin", http.MethodGet, "/apis/example.com/v1/wheels", jsonBody, "").code == 200
	})
	hide := func(resource, field string) answer {
		return f.as(t, "admin", http.MethodPost, fieldsGroup+"?dryRun=All", "application/yaml", fmt.Sprintf(hidingRules, "scaled", resource, field, "scaled", "Nothing"))
	}
	f.settled(t, "its scale", func() bool { return hide("wheels.example.com", ".spec.count").code == 422 })
	for resource, fields := range map[string][]string{
		"deployments.apps": {".spec.replicas", ".status.replicas", ".status", ".spec.selector"}, "statefulsets.apps": {".status.replicas"}, "replicasets.apps": {".status.replicas"},
		"replicationcontrollers": {".status.replicas", ".spec.selector"}, "wheels.example.com": {".spec.count", ".status.count", ".status.selector", ".status"},
	} {
		for _, field := range fields {
			if a := hide(resource, field); a.code != 422 || !strings.Contains(a.message, "cannot be hidden") {
				t.Errorf("%s of %s: %d %s", field, resource, a.code, a.message)
			}
		}
	}
	allowed(t, "another field of the status", hide("deployments.apps", ".status.readyReplicas"))
	allowed(t, "another field", hide("wheels.example.com", ".spec.pin"))

	// A definition that makes a Scale of a hidden field later shows it in no answer.
	f.apply(t, fieldsGroup+"/wheelpin", fmt.Sprintf(hidingRules, "wheelpin", "wheels.example.com", ".spec.pin", "wheelpin", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/wheelpin", jsonBody, "")
	f.grant(t, "wheeler", []string{"example.com"}, []string{"wheels", "wheels/scale"}, "get", "update", "patch")
	const at = "/apis/example.com/v1/namespaces/scales/wheels"
	f.admin(t, http.MethodPost, at, jsonBody, `{"apiVersion":"example.com/v1","kind":"Wheel","metadata":{"name":"x"},"spec":{"count":1,"pin":"p=q","color":"a=b"}}`)
	patch := func() answer { return f.as(t, "wheeler", http.MethodPatch, at+"/x/scale", mergePatch, `{}`) }
	f.settled(t, "the field is hidden", func() bool {
		a := patch()
		return a.code == 200 && strings.Contains(a.warning, ".spec.pin")
	})
	f.apply(t, definition, fmt.Sprintf(wheels, ".spec.color"))
	f.settled(t, "a scale by another field", func() bool {
		text, _ := json.Marshal(patch().body["status"])
		return strings.Contains(string(text), "a=b")
	})
	f.apply(t, definition, fmt.Sprintf(wheels, ".spec.pin"))
	f.settled(t, "a scale by the field", func() bool {
		text, _ := json.Marshal(f.admin(t, http.MethodGet, at+"/x/scale", jsonBody, "").body["status"])
		return strings.Contains(string(text), "p=q")
	})
	refused(t, "a scale by the field", patch(), "reveal:example.com/wheelpin")
	get := f.as(t, "wheeler", http.MethodGet, at+"/x/scale", jsonBody, "")
	if text, _ := json.Marshal(get.body); strings.Contains(string(text), "p=q") {
		t.Errorf("get: %d %s", get.code, text)
	}
}
