package managed

import (
	"bytes"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

const policy = `
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: small, namespace: team}
rules:
- {verbs: [create], resourceKinds: [configmaps], where: 'resource.metadata.name == "small"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: small, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [ann]
`

const protection = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: env}
attributeKind: Label
attributeName: env
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
`

const ends = `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: oncall, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [bob]
notAfter: "2030-01-01T00:00:00Z"
`

func compiled(t *testing.T, text string, accept ...string) (*compile.Result, error) {
	t.Helper()
	host, err := offline.New(offline.Config{Texts: []source.Text{{Name: "test", Data: []byte(text)}}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	return Compile(host, accept)
}

// MC-2: what is not a rule is not passed over: protected attributes and bindings with a time are impossible, and can be
// accepted by their names. A name that is not there cannot.
func TestObjectsThatAreLost(t *testing.T) {
	if result, err := compiled(t, policy); err != nil || len(result.Impossible()) > 0 {
		t.Fatalf("%v, %v", result, err)
	}
	for text, name := range map[string]string{protection: "ClusterProtectedAttribute/env", ends: "RoleBinding/team/oncall"} {
		result, err := compiled(t, policy+text)
		if err != nil || len(result.Impossible()) != 1 || result.Impossible()[0].Rule != name {
			t.Fatalf("%s: %v, %v", name, result, err)
		}
		result, err = compiled(t, policy+text, name)
		if err != nil || len(result.Impossible()) > 0 {
			t.Errorf("%s cannot be accepted: %v", name, err)
		}
		var out bytes.Buffer
		if err := Write(&out, result.Grants); err != nil || strings.Contains(out.String(), "bob") {
			t.Errorf("%v\n%s", err, &out)
		}
	}
	if _, err := compiled(t, policy, "team/smal"); err == nil || !strings.Contains(err.Error(), "--accept team/smal") {
		t.Errorf("a misspelling was accepted: %v", err)
	}
}

// MC-1: the output has the verdicts in comments, and nothing that a server sets.
func TestOutput(t *testing.T) {
	result, err := compiled(t, policy)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, append(result.Policies, result.Grants...)); err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"status:", "creationTimestamp", "resourceVersion"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%s is written:\n%s", not, &out)
		}
	}
	at := -1
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Role", "RoleBinding"} {
		next := strings.Index(out.String(), "kind: "+kind+"\n")
		if next <= at {
			t.Errorf("%s is not behind what it needs:\n%s", kind, &out)
		}
		at = next
	}
	if header := string(Header(result)); !strings.Contains(header, "# team/small/0: stronger: ") {
		t.Error(header)
	}
}

// MC-2: a cluster role that may write RBAC, or that is not known, is not bound beside conditions.
func TestClusterRolesThatHandOut(t *testing.T) {
	bind := `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: viewer, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
userNames: [ann]
`
	role := func(verb string) string {
		return `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [` + verb + `]}
`
	}
	for text, lost := range map[string]int{bind: 1, bind + role("get"): 0, bind + role("create"): 1} {
		result, err := compiled(t, policy+text)
		if err != nil || len(result.Impossible()) != lost {
			t.Errorf("%d are lost: %v\n%s", len(result.Impossible()), err, text)
		}
		var out bytes.Buffer
		if err := Write(&out, result.Grants); err != nil || strings.Contains(out.String(), "name: viewer") != (lost == 0) {
			t.Errorf("%v\n%s", err, &out)
		}
	}
}
