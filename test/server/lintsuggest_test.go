package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"proviso.dev/proviso/internal/cli/policytools"
)

// tools asks the server with the commands that go by what it has: lint, also for labels that no object has (TR-9), and
// suggest, by what the server is asked meanwhile and by the objects that it has (TR-10).
func (p *policyServer) tools(t *testing.T) {
	const maps = "/api/v1/namespaces/anvil/configmaps"
	for i := range 6 {
		team := "a"
		if i >= 3 {
			team = "b"
		}
		p.admin.must(t, "POST", maps, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d, labels: {team: %s}}}", i, team))
	}
	p.admin.must(t, "POST", containersIn("anvil", "policies"), policyYAML("anvil", "default"))
	p.admin.must(t, "POST", containersIn("anvil", "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: anvil}}")
	p.admin.must(t, "POST", viewsIn("anvil", "roles"), roleYAML("typo", `{verbs: [delete], resourceKinds: [configmaps], where: 'resource.metadata.labels.taem == "a"'}, {verbs: [update], resourceKinds: [configmaps], where: 'resource.metadata.labels.team == "a"'}`))
	p.admin.must(t, "POST", viewsIn("anvil", "rolebindings"), bindingYAML("typo", "anvil", "typo"))
	out, errOut, _ := p.s.run(t, policytools.NewLintCommand)
	if !strings.Contains(out, "warning PV019: Role anvil/typo rules[0].where: no object has the label taem") || !strings.Contains(out, "Write team, if that is meant.") || strings.Contains(out, "rules[1].where: no object") {
		t.Errorf("%s\n%s", out, errOut)
	}

	p.admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/anvil/roles",
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: maps}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, patch, create, delete]}]}`)
	p.admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/anvil/rolebindings",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: maps}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maps}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]}")
	dora := newCaller(t, p.s.as("dora"))
	p.s.await("dora's right", func() (bool, error) {
		code, _, _ := dora.do(t, "GET", maps+"/c0", "")
		return code == 200, nil
	})
	// All objects have the label, but nobody saw them before the patches, so the suggestion has no condition.
	// What is seen of a slow machine in a short time may be nothing: then longer.
	for look := 2 * time.Second; ; look *= 3 {
		done := make(chan [2]string, 1)
		go func() {
			out, errOut, err := p.s.run(t, policytools.NewSuggestCommand, "--live", look.String(), "--user", "dora", "--max-names", "2")
			done <- [2]string{out, fmt.Sprint(errOut, err)}
		}()
		var said [2]string
		for said == ([2]string{}) {
			for i := range 3 {
				dora.must(t, "PATCH", fmt.Sprintf("%s/c%d", maps, i), `{"data":{"a":"b"}}`)
			}
			select {
			case said = <-done:
			case <-time.After(50 * time.Millisecond):
			}
		}
		if !strings.Contains(said[0], "where:") && strings.Contains(said[0], "decided as before; the suggestion grants nothing new") && strings.Contains(said[0], "- patch\n") && !strings.Contains(said[0], "- delete") {
			return
		}
		if look > time.Minute {
			t.Fatalf("%s\n%s", said[0], said[1])
		}
	}
}
