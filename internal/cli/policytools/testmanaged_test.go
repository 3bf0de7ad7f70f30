package policytools

import (
	"strings"
	"testing"
)

const managedPolicy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: small, namespace: team}
rules:
- {verbs: [get], resourceKinds: [configmaps]}
- {verbs: [create, update, delete], resourceKinds: [configmaps], where: 'resource.metadata.?labels.size.orValue("") == "small"', description: only small ones}
- {deny: true, verbs: [create], resourceKinds: [secrets], description: no secrets}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: small, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [ann]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: besides, namespace: team}
rules:
- {apiGroups: [""], resources: [configmaps, secrets], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: besides, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: besides}
subjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}]
`

const managedCases = `---
apiVersion: tools.proviso.dev/v1alpha1
kind: PolicyTest
metadata: {name: managed}
policies: ["*.yaml"]
cases:
- {name: a read, user: ann, verb: get, resource: configmaps, namespace: team, objectName: x, expect: {decision: Allow, rule: team/small}}
- {name: another read, user: bob, verb: get, resource: configmaps, namespace: team, objectName: x, expect: {decision: Deny}}
- {name: small, user: ann, verb: create, resource: configmaps, namespace: team, object: {metadata: {name: x, labels: {size: small}}}, expect: {decision: Allow}}
- {name: big, user: ann, verb: create, resource: configmaps, namespace: team, object: {metadata: {name: x, labels: {size: big}}}, expect: {decision: Deny, rule: team/small/1, message: only small ones}}
- {name: not known, user: ann, verb: create, resource: configmaps, namespace: team, expect: {decision: Conditional, rule: team/small}}
- {name: besides, user: bob, verb: create, resource: configmaps, namespace: team, object: {metadata: {name: x}}, expect: {decision: Allow, rule: none}}
- {name: denied, user: ann, verb: create, resource: secrets, namespace: team, expect: {decision: Deny, rule: team/small/2, message: no secrets}}
- {name: not denied, user: bob, verb: create, resource: secrets, namespace: team, expect: {decision: Allow}}
- {name: an update out of it, user: ann, verb: update, resource: configmaps, namespace: team, objectName: x, object: {metadata: {name: x}}, oldObject: {metadata: {name: x, labels: {size: small}}}, expect: {decision: Deny}}
- {name: a delete, user: ann, verb: delete, resource: configmaps, namespace: team, objectName: x, oldObject: {metadata: {name: x, labels: {size: small}}}, expect: {decision: Allow}}
- {name: in another namespace, user: ann, verb: create, resource: configmaps, namespace: other, object: {metadata: {name: x, labels: {size: small}}}, expect: {decision: Deny}}
`

// MC-5: tests are decided as by a cluster for which the policy is compiled, by RBAC that is there besides, too: from
// the policy, and from a dump of the cluster. The engine says something else where such a cluster is stronger.
func TestManagedTarget(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": managedPolicy, "cases.test.yaml": managedCases})
	if out, code, err := execute(t, NewTestCommand, "", dir, "--target", "vap"); code != 0 || err != nil {
		t.Errorf("%d %v\n%s", code, err, out)
	}
	if out, code, _ := execute(t, NewTestCommand, "", dir); code != 1 || !strings.Contains(out, "big") {
		t.Errorf("the engine knows that RBAC allows big ones, too: %d\n%s", code, out)
	}
	compiled, code, err := execute(t, NewCompileCommand, "", "-f", dir+"/policy.yaml")
	if code != 0 || err != nil {
		t.Fatalf("%d %v", code, err)
	}
	_, besides, _ := strings.Cut(managedPolicy, "userNames: [ann]\n")
	dump := write(t, map[string]string{"dump.yaml": compiled + besides, "cases.test.yaml": managedCases})
	if out, code, err := execute(t, NewTestCommand, "", dump, "--target", "vap"); code != 0 || err != nil {
		t.Errorf("a dump: %d %v\n%s", code, err, out)
	}
	// A policy that is not enforced in the cluster refuses nothing.
	tampered := write(t, map[string]string{"dump.yaml": strings.ReplaceAll(compiled, "validationActions:\n  - Deny", "validationActions:\n  - Audit") + besides, "cases.test.yaml": managedCases})
	if out, code, _ := execute(t, NewTestCommand, "", tampered, "--target", "vap"); code != 1 || !strings.Contains(out, "big") {
		t.Errorf("a policy that only audits: %d\n%s", code, out)
	}
}

// MC-5: what cannot be had is an error that names the rule, and can be done without; so are flags that say nothing.
func TestManagedTargetOfBadInput(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": strings.Replace(managedPolicy, "verbs: [create, update, delete]", "verbs: [get, create, update, delete]", 1), "cases.test.yaml": managedCases})
	if _, code, err := execute(t, NewTestCommand, "", dir, "--target", "vap"); err == nil || !strings.Contains(err.Error(), "--accept team/small/1") {
		t.Errorf("%d %v", code, err)
	}
	if out, code, err := execute(t, NewTestCommand, "", dir, "--target", "vap", "--accept", "team/small/1"); code != 0 {
		t.Errorf("%d %v\n%s", code, err, out)
	}
	for _, flags := range [][]string{{"--target", "x"}, {"--accept", "team/small/1"}, {"--target", "vap", "--coverage"}, {"--target", "vap", "--init"}} {
		if _, _, err := execute(t, NewTestCommand, "", append([]string{dir}, flags...)...); err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%v: %v", flags, err)
		}
	}
}
