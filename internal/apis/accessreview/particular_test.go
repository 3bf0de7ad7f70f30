package accessreview

import (
	"strings"
	"testing"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

// CA-15, CA-26: impersonations and the targets of connections are evaluated as webhooks are asked about them.
func TestParticularOperations(t *testing.T) {
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, Config{Evaluate: authorize.NewCELConditions(compiler).Evaluate}, allow)
	impersonates := conditionsReview("Deny", "Allow=impersonatedRequest.verb == 'get' && impersonatedRequest.resource == 'pods'")
	connects := conditionsReview("Deny", "Allow=object == null && options.command == ['ps'] && target.metadata.labels.debug == 'yes'")
	for _, tt := range []struct {
		name, review, operation string
		wantCode                int
		want                    string
	}{
		{"impersonation", impersonates, "IMPERSONATE\n  impersonatedRequest: {verb: get, resource: pods}", 201, "allowed: true"},
		{"another impersonation", impersonates, "IMPERSONATE\n  impersonatedRequest: {verb: get, resource: secrets}", 201, "allowed: false"},
		{"no request to impersonate", impersonates, "IMPERSONATE", 422, "request.impersonatedRequest"},
		{"a request that nobody impersonates", impersonates, "CREATE\n  impersonatedRequest: {verb: get}", 422, "request.impersonatedRequest"},
		{"connection", connects, "CONNECT\n  options: {command: [ps]}\n  target: {metadata: {labels: {debug: 'yes'}}}", 201, "allowed: true"},
		{"another target", connects, "CONNECT\n  options: {command: [ps]}\n  target: {metadata: {labels: {debug: 'no'}}}", 201, "allowed: false"},
		{"no target", connects, "CONNECT\n  options: {command: [ps]}", 201, "allowed: false"},
		{"a target that is not an object", connects, "CONNECT\n  target: [1]", 422, "request.target"},
		{"a target of a write", connects, "CREATE\n  target: {metadata: {}}", 422, "request.target"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			part := "response"
			if tt.wantCode != 201 {
				part = "message"
			}
			code, got := postYAML(t, server, conditionsPath, strings.Replace(tt.review, "operation: CREATE", "operation: "+tt.operation, 1), part)
			if code != tt.wantCode || !strings.Contains(got, tt.want) {
				t.Errorf("got %d %s, want %d %s", code, got, tt.wantCode, tt.want)
			}
		})
	}
}
