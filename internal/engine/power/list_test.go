package power

import "testing"

// TestOf names what a narrowed token never gets by a wildcard, and what it does (TK-4).
func TestOf(t *testing.T) {
	for _, c := range []struct {
		verb, group, resource, sub string
		want                       bool
	}{
		{"impersonate", "", "users", "", true}, {"impersonate-on:user-info:get", "apps", "deployments", "", true}, {"impersonate:associated-node", "authentication.k8s.io", "nodes", "", true},
		{"escalate", "rbac.authorization.k8s.io", "roles", "", true}, {"bind", "x", "y", "", true}, {"deny", "authorization.proviso.dev", "roles", "", true}, {"approve", "access.proviso.dev", "accessrequests", "", true},
		{"create", "", "serviceaccounts", "token", true}, {"create", "certificates.k8s.io", "certificatesigningrequests", "", true}, {"update", "certificates.k8s.io", "certificatesigningrequests", "approval", true},
		{"get", "", "pods", "exec", true}, {"create", "", "pods", "attach", true}, {"get", "", "pods", "portforward", true}, {"get", "", "pods", "proxy", true}, {"delete", "", "services", "proxy", true}, {"get", "", "nodes", "proxy", true},
		{"patch", "", "pods", "ephemeralcontainers", true}, {"create", "", "pods", "", true}, {"patch", "", "pods", "", true}, {"create", "", "pods", "binding", true}, {"create", "", "bindings", "", true},
		{"patch", "apps", "deployments", "", true}, {"update", "apps", "deployments", "scale", true}, {"create", "batch", "cronjobs", "", true}, {"update", "", "replicationcontrollers", "", true},
		{"create", "", "persistentvolumes", "", true}, {"get", "", "secrets", "", true}, {"list", "", "secrets", "", true}, {"delete", "", "secrets", "", true},
		{"patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", true}, {"create", "apiregistration.k8s.io", "apiservices", "", true}, {"update", "apiextensions.k8s.io", "customresourcedefinitions", "", true},
		{"create", "rbac.authorization.k8s.io", "rolebindings", "", true}, {"delete", "authorization.proviso.dev", "rolebindings", "", true}, {"patch", "policy.proviso.dev", "policies", "", true},
		{"create", "access.proviso.dev", "accessrequests", "", true}, {"create", "access.proviso.dev", "accessrequests", "approval", true},

		{"get", "", "pods", "", false}, {"get", "", "pods", "log", false}, {"delete", "", "pods", "", false}, {"list", "apps", "deployments", "", false}, {"create", "", "configmaps", "", false},
		{"delete", "apps", "deployments", "", false}, {"create", "authorization.k8s.io", "selfsubjectaccessreviews", "", false}, {"get", "rbac.authorization.k8s.io", "roles", "", false},
		{"create", "access.proviso.dev", "narrowedtokens", "", false}, {"patch", "", "persistentvolumeclaims", "", false},
	} {
		if _, got := Of(c.verb, c.group, c.resource, c.sub); got != c.want {
			t.Errorf("%s %s/%s.%s: %v", c.verb, c.resource, c.sub, c.group, got)
		}
	}
}
