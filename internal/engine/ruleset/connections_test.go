package ruleset

import (
	"strings"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
)

// CA-26: a rule names a connection by its subresource or by the verb that stands for it, and never by a wildcard.
func TestNamedConnections(t *testing.T) {
	const exec, proxies = "pods/exec pods/attach pods/portforward", "pods/proxy services/proxy nodes/proxy"
	for _, c := range []struct{ verbs, kinds, want string }{
		{"*", "*", ""}, {"create", "*", ""}, {"*", "pods/*", ""}, {"*", "*/*", ""}, {"get", "pods", ""}, {"-exec", "pods", ""},
		{"*", "-pods/exec", ""}, {"*", "pods/log deployments/scale", ""}, {"*", "widgets/exec", ""}, {"*", "*.apps/exec", ""},
		{"*", "pods.example.com/exec", ""}, {"*", "services/exec nodes/attach", ""}, {"*", "exec", ""}, {"*", "/exec pods/", ""},
		{"create", "pods/exec", "pods/exec"}, {"*", "pods/exec", "pods/exec"}, {"get", "PODS/Exec", "pods/exec"}, {"create", "Pod/attach", "pods/attach"},
		{"create", "pods./portforward", "pods/portforward"}, {"create", "*/exec", "pods/exec"}, {"*", "*/proxy", proxies},
		{"*", "nodes/proxy Service/proxy", "services/proxy nodes/proxy"}, {"*", "* pods/exec", "pods/exec"}, {"get", "pods pods/exec", "pods/exec"},
		{"exec", "pods", exec}, {"exec", "*", exec}, {"get exec", "pods", exec}, {"* exec", "*", exec}, {"proxy", "nodes", proxies},
		{"proxy", "pods/exec", proxies + " pods/exec"}, {"exec proxy", "*", exec + " " + proxies},
	} {
		got := NamedConnections(&policyv1alpha1.PolicyRule{Verbs: strings.Fields(c.verbs), ResourceKinds: strings.Fields(c.kinds)})
		for _, at := range strings.Fields(exec + " " + proxies + " pods/log pods services/exec") {
			resource, sub, _ := strings.Cut(at, "/")
			want := strings.Contains(" "+c.want+" ", " "+at+" ")
			if got.Has("", resource, sub) != want || got.Has("apps", resource, sub) {
				t.Errorf("%s of %s: %s is named: %v, want %v", c.verbs, c.kinds, at, !want, want)
			}
		}
	}
	if s := connect.Set(0); s.Has("", "pods", "exec") {
		t.Error("the empty set has something")
	}
}
