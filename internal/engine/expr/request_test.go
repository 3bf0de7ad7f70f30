package expr

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestConnectionsAreCreates: conditions see what a connection is and not how it is made (CA-9, CA-19, PO-20).
func TestConnectionsAreCreates(t *testing.T) {
	for _, c := range []struct {
		verb, resource, sub, name string
		wantVerb, wantName        string
	}{
		{"get", "pods", "exec", "p", "create", "p"},
		{"create", "pods", "exec", "p", "create", "p"},
		{"get", "pods", "portforward", "p", "create", "p"},
		{"get", "services", "proxy", "http:admin:80", "create", "admin"},
		{"delete", "services", "proxy", "admin:80", "create", "admin"},
		{"patch", "nodes", "proxy", "https:n1:", "create", "n1"},
		{"impersonate-on:user-info:get", "pods", "exec", "p", "impersonate-on:user-info:get", "p"},
		{"get", "pods", "log", "p", "get", "p"},
		{"get", "services", "", "http:admin:80", "get", "http:admin:80"},
	} {
		r := NewRequest(authorizer.AttributesRecord{Verb: c.verb, Resource: c.resource, Subresource: c.sub, Name: c.name, ResourceRequest: true})
		if r.Verb != c.wantVerb || r.Name != c.wantName || r.Subresource != c.sub {
			t.Errorf("%s %s/%s %s: conditions see %s of %s, want %s of %s", c.verb, c.resource, c.sub, c.name, r.Verb, r.Name, c.wantVerb, c.wantName)
		}
	}
}
