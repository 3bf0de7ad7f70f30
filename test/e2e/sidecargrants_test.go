package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// grantsPolicy: nora manages roles of RBAC in team and has its secrets by RBAC, which Policy denies her. pat patches
// config maps that are small.
const grantsPolicy = `apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: team}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: team, namespace: team}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: secretless, namespace: team}
rules: [{deny: true, verbs: [get, list, watch], resourceKinds: [secrets]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: secretless, namespace: team}
roleRef: {namespace: team, name: secretless}
userNames: [nora]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: patches, namespace: team}
rules: [{verbs: [patch], resourceKinds: [configmaps], when: 'oldObject.metadata.?labels.size.orValue("") == "small"'}, {verbs: [get], resourceKinds: [configmaps]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: patches, namespace: team}
roleRef: {namespace: team, name: patches}
userNames: [pat]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: manages, namespace: team}
rules:
- {apiGroups: [""], resources: [secrets, configmaps], verbs: [get]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: manages, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: manages}
subjects: [{kind: User, name: nora, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: otto, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-secrets, labels: {gathered: here}}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-configmaps}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`

const denyPatch = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: no-patch, namespace: team}
rules: [{deny: true, verbs: [patch], resourceKinds: [configmaps]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: no-patch, namespace: team}
roleRef: {namespace: team, name: no-patch}
userNames: [pat]
`

// SC-15, SC-18: on a real stock server, RBAC hands out nothing that Policy denies its writer, and a deny does not lift
// the condition of a request that is under way.
func TestSidecarGrantsAndHeldRequests(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
	p.honoured()
	p.kubectl("create", "namespace", "team")
	p.apply(grantsPolicy)
	p.grants()
	p.deniedMeanwhile(t)
}

// grants: each refusal has a twin, by otto, to whom nothing is denied, or with another right.
func (p *pair) grants() {
	p.t.Helper()
	p.does("otto", true, "get", "role.rbac.authorization.k8s.io", "manages")
	p.await("the deny to hold", func() bool {
		out, err := p.try("", "-n", "team", "--as", "nora", "get", "secret", "x")
		return err != nil && strings.Contains(out, "orbidden")
	})
	p.does("nora", false, "create", "role", "leaks", "--verb=get", "--resource=secrets")
	p.does("nora", false, "create", "role", "leaks", "--verb=get", "--resource=secrets", "--dry-run=server")
	p.does("otto", true, "create", "role", "leaks", "--verb=get", "--resource=secrets")
	p.does("nora", true, "create", "role", "fine", "--verb=get", "--resource=configmaps")
	p.does("nora", false, "patch", "role.rbac.authorization.k8s.io", "fine", "--type=json", "-p", `[{"op": "replace", "path": "/rules/0/resources/0", "value": "secrets"}]`)
	p.does("nora", false, "label", "role.rbac.authorization.k8s.io", "leaks", "a=b")
	p.does("nora", false, "create", "rolebinding", "a", "--role=leaks", "--serviceaccount=team:bot")
	p.does("nora", true, "create", "rolebinding", "b", "--role=fine", "--serviceaccount=team:bot")
	p.does("nora", false, "create", "rolebinding", "c", "--clusterrole=reads-secrets", "--serviceaccount=team:bot")
	p.does("nora", true, "create", "rolebinding", "d", "--clusterrole=reads-configmaps", "--serviceaccount=team:bot")
	p.does("otto", true, "create", "rolebinding", "e", "--clusterrole=reads-secrets", "--serviceaccount=team:bot")
	p.does("nora", true, "delete", "rolebinding.rbac.authorization.k8s.io", "e", "--wait=false")
	out, _ := p.try("", "-n", "team", "--as", "nora", "create", "role", "leaks-too", "--verb=get", "--resource=secrets")
	if !strings.Contains(out, "cannot grant what a rule of Policy denies them") {
		p.t.Errorf("the refusal does not say why: %s", out)
	}
}

// deniedMeanwhile: pat holds a patch open and is denied patches before its last byte.
func (p *pair) deniedMeanwhile(t *testing.T) {
	t.Helper()
	p.apply(sized("victim", "big"))
	p.apply(sized("own", "small"))
	p.does("pat", true, "label", "configmap", "own", "free=1")
	p.does("pat", false, "label", "configmap", "victim", "free=1")
	release := p.held(t, "pat", p.request(t, http.MethodPatch, "/api/v1/namespaces/team/configmaps/victim", "application/merge-patch+json"), `{"data": {"stolen": "yes"}}`)
	p.apply(denyPatch)
	p.await("the deny to hold", func() bool {
		out, err := p.try("", "-n", "team", "--as", "pat", "label", "configmap", "own", "free=2", "--overwrite")
		return err != nil && strings.Contains(out, "no-patch")
	})
	if got := release(); got.code != http.StatusForbidden || !strings.Contains(got.text, "a rule denies it now") {
		t.Errorf("what was authorized under a condition and is denied by now: %+v", got)
	}
	if out, _ := p.try("", "-n", "team", "get", "configmap", "victim", "-o", "jsonpath={.data}"); out != "" {
		t.Errorf("it is stored: %s", out)
	}
}
