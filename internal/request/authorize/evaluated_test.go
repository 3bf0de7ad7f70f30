package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// CA-6, CA-14, CA-19, PA-8: for which requests a review shows conditions, and for which it shows what must not be set.
func TestWhatReviewsShow(t *testing.T) {
	gate := NewGate(GateConfig{Conditional: true, Local: LocalFunc(func(string, string) bool { return true })})
	for _, tt := range []struct {
		name, verb, resource, sub string
		wantConditions, wantSets  bool
	}{
		{"create", "create", "pods", "", true, true},
		{"patch of a subresource", "patch", "pods", "status", true, true},
		{"delete", "delete", "pods", "", true, false},
		{"exec", "create", "pods", "exec", true, false},
		{"proxy by get", "get", "nodes", "proxy", true, false},
		{"proxy by create", "create", "nodes", "proxy", true, false},
		{"get", "get", "pods", "", false, false},
		{"impersonate", "impersonate", "users", "", true, false},
		{"impersonate for one verb", "impersonate-on:user-info:list", "pods", "", true, false},
		{"impersonate in a mode", "impersonate:user-info", "users", "", false, false},
		{"escalate", "escalate", "roles", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attrs := authorizer.AttributesRecord{Verb: tt.verb, APIVersion: "v1", Resource: tt.resource, Subresource: tt.sub, ResourceRequest: true}
			if err := gate.Evaluated(attrs); (err == nil) != tt.wantConditions {
				t.Errorf("conditions: %v, want %v", err, tt.wantConditions)
			}
			if got := Writes(attrs); got != tt.wantSets {
				t.Errorf("what must not be set: %v, want %v", got, tt.wantSets)
			}
		})
	}
}
