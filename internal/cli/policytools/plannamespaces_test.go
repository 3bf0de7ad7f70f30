package policytools

import (
	"path/filepath"
	"strings"
	"testing"
)

const onNamespace = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev, namespace: master}
rules:
- {verbs: [create], resourceKinds: [pods], when: 'namespaceObject.metadata.labels.env == "dev"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev, namespace: master}
roleRef: {namespace: master, name: dev}
userNames: [vera]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: edit}
rules: [{verbs: [create], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: prod}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: alice}]
---
apiVersion: v1
kind: Namespace
metadata: {name: prod}
`

// NI-8, TR-18: a change of Namespaces changes what conditions on them allow, and deleting one deletes the policy in it.
func TestPlanOfNamespaces(t *testing.T) {
	from := write(t, map[string]string{"all.yaml": onNamespace})
	const prod, dev, system = "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod, labels: {env: dev}}\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n"
	has := write(t, map[string]string{"all.yaml": onNamespace + "---\n" + system})
	for _, test := range []struct {
		name, from, change string
		args               []string
		code               int
		want               string
	}{
		{"a label", from, dev, nil, 2, `may change: Role "master/dev" rule 0 has a condition on the Namespace: what vera may do in prod may change`},
		{"the same", from, prod, nil, 0, "Nobody gains or loses anything."},
		{"a deleted one", from, prod, []string{"--delete"}, 2, "alice   create configmaps   prod        Yes → No"},
		{"one that stays", has, system, []string{"--delete"}, 2, "rejected: Namespace kube-system: this namespace cannot be deleted"},
	} {
		out, code, err := plans(t, test.change, append([]string{"--from", test.from, "-f", "-"}, test.args...)...)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s: %d %v, want %d and %q\n%s", test.name, code, err, test.code, test.want, out)
		}
	}
}

// TR-4, NI-8: what guards a write is found in the policy, wherever the change comes from: also if it is pruned.
func TestPlanReplaysWhatGuardsRefused(t *testing.T) {
	const attribute = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: tier}
attributeKind: Label
attributeName: tier
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
`
	const create = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/prod/configmaps","verb":"create",` +
		`"user":{"username":"alice","groups":["system:authenticated"]},"objectRef":{"resource":"configmaps","namespace":"prod","name":"a","apiVersion":"v1"},` +
		`"requestObject":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"prod","labels":{"tier":"x"}}},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-01-02T03:04:05Z"}` + "\n"
	dir := write(t, map[string]string{"old/all.yaml": onNamespace + attribute, "new/all.yaml": onNamespace, "log": create})
	out, code, err := plans(t, "", "--from", filepath.Join(dir, "old"), "-f", filepath.Join(dir, "new"), "--prune", "--replay", filepath.Join(dir, "log"))
	if code != 2 || !strings.Contains(out, "Of 1 recorded requests, 1 would be decided differently.") || !strings.Contains(out, "No → Yes") {
		t.Errorf("%d %v\n%s", code, err, out)
	}
}
