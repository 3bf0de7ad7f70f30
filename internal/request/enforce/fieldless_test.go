package enforce

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FP-15, TM-12: a decision about a request for access writes none of its fields. Other approvals may.
func TestFieldless(t *testing.T) {
	for _, tc := range []struct {
		group, resource, sub string
		want                 bool
	}{
		{"access.proviso.dev", "accessrequests", "approval", true}, {"access.proviso.dev", "accessrequests", "revocation", true},
		{"access.proviso.dev", "accessrequests", "", false}, {"access.proviso.dev", "accessrequests", "status", false},
		{"certificates.k8s.io", "certificatesigningrequests", "approval", false}, {"example.com", "accessrequests", "approval", false},
		{"", "pods", "eviction", true}, {"", "pods", "exec", true}, {"", "pods", "binding", false}, {"", "serviceaccounts", "token", true},
	} {
		if got := fieldless(schema.GroupResource{Group: tc.group, Resource: tc.resource}, tc.sub); got != tc.want {
			t.Errorf("%s.%s/%s: %v", tc.resource, tc.group, tc.sub, got)
		}
	}
}
