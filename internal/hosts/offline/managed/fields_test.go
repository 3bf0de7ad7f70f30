package managed

import (
	"bytes"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/analysis/compile"
)

const exclusive = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: net}
spec: {resources: [pods], field: .spec.hostNetwork, permission: example.com/net, exclusive: true, exclusiveWhen: self == true}
`

const permitted = `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: net, namespace: team}
rules:
- {verbs: ["granular:example.com/net"], resourceKinds: [pods, deployments.apps]}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: net, namespace: team}
roleRef: {namespace: team, name: net}
userNames: [ned]
`

// MC-4: an exclusive field is one policy for each group of resources that have it, also in templates, and its
// permission a verb that is granted.
func TestExclusiveFields(t *testing.T) {
	result, err := compiled(t, policy+exclusive+permitted)
	if err != nil || len(result.Impossible()) > 0 {
		t.Fatalf("%v, %+v", err, result.Impossible())
	}
	var policies, grants bytes.Buffer
	if err := Write(&policies, result.Policies); err != nil {
		t.Fatal(err)
	}
	if err := Write(&grants, result.Grants); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- pods\n", "- deployments\n", "- cronjobs\n", `check("granular:example.com/net")`, "system:serviceaccount:kube-system:replicaset-controller",
		`.?spec.?template.?spec.?hostNetwork`, "self == true"} {
		if !strings.Contains(policies.String(), want) {
			t.Errorf("the policies do not have %q", want)
		}
	}
	if !strings.Contains(grants.String(), "granular:example.com/net") || !strings.Contains(grants.String(), "name: ned") {
		t.Errorf("the permission is not granted:\n%s", &grants)
	}
	for _, a := range result.Assessments {
		if name := a.Rule; (name == "FieldPermission/net" || name == "team/net/0") && a.Verdict != compile.Stronger {
			t.Errorf("%s: %s", name, a.Verdict)
		}
	}
}

// MC-4: what cannot be had of fields is lost by its name, with the reason, and is not written.
func TestFieldsThatAreLost(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(exclusive, "exclusiveWhen: self == true", "readExclusive: true", 1):                                                                            "hidden fields",
		strings.Replace(exclusive, "exclusiveWhen: self == true", "enforcement: Shadow", 1):                                                                            "cannot shadow",
		strings.Replace(exclusive, ".spec.hostNetwork", "\".metadata.labels[]\"", 1) + "  \n":                                                                          "",
		strings.Replace(strings.Replace(exclusive, ".spec.hostNetwork", "\".metadata.labels[]\"", 1), "exclusive: true", "exclusive: true, parameter: {from: key}", 1): "has a parameter",
	} {
		result, err := compiled(t, policy+text)
		if err != nil {
			t.Fatal(err)
		}
		lost := ""
		for _, a := range result.Impossible() {
			lost += a.Rule + ": " + a.Text()
		}
		if want == "" && lost != "" || want != "" && (!strings.HasPrefix(lost, "FieldPermission/net: ") || !strings.Contains(lost, want)) {
			t.Errorf("lost is %q, want %q", lost, want)
		}
	}
	// The right to a field that is not exclusive counts for itself, which RBAC there does not know.
	result, err := compiled(t, policy+permitted)
	if err != nil || len(result.Impossible()) != 1 || !strings.Contains(result.Impossible()[0].Text(), "rights to single fields") {
		t.Errorf("%v, %+v", err, result.Impossible())
	}
}

const keepers = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keepers}
rules:
- {apiGroups: [compile.proviso.dev], resources: [roles], resourceNames: [ClusterRole/keepers], verbs: [member]}
`

// MC-4: a role of RBAC that says who its members are can protect; one that does not, or is not known, cannot.
func TestMembersOfRBAC(t *testing.T) {
	for text, lost := range map[string]int{protection: 1, protection + keepers: 0, protection + strings.Replace(keepers, "ClusterRole/keepers", "ClusterRole/others", 1): 1} {
		result, err := compiled(t, policy+text)
		if err != nil || len(result.Impossible()) != lost {
			t.Errorf("%v, %+v, want %d lost", err, result.Impossible(), lost)
		}
	}
	result, err := compiled(t, policy+strings.Replace(protection, "attributeName: env\n", "attributeName: env\nenforcement: Shadow\n", 1)+keepers)
	if err != nil || len(result.Impossible()) != 1 || !strings.Contains(result.Impossible()[0].Text(), "cannot shadow") {
		t.Errorf("%v, %+v", err, result.Impossible())
	}
}
