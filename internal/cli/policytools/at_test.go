package policytools

import (
	"strings"
	"testing"
)

const shifts = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: reader, namespace: hammer}
rules:
- {verbs: [get], resourceKinds: [pods]}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: shift, namespace: hammer}
roleRef: {namespace: hammer, name: reader}
userNames: [alice]
notBefore: "2037-11-21T00:00:00Z"
notAfter: "2037-11-23T00:00:00Z"
`

const shiftTests = `apiVersion: tools.proviso.dev/v1alpha1
kind: PolicyTest
metadata: {name: shift}
policies: [policy.yaml]
cases:
- {name: by the flag, user: alice, verb: get, resource: pods, namespace: hammer, expect: {decision: DECISION}}
- {name: before, at: "2037-11-20T23:59:59Z", user: alice, verb: get, resource: pods, namespace: hammer, expect: {decision: Deny}}
- {name: begins, at: "2037-11-21T00:00:00Z", user: alice, verb: get, resource: pods, namespace: hammer, expect: {decision: Allow, rule: hammer/reader}}
- {name: ends, at: "2037-11-23T00:00:00Z", user: alice, verb: get, resource: pods, namespace: hammer, expect: {decision: Deny}}
`

// TM-6: test and matrix answer about an instant; matrix says when its answer changes.
func TestAnInstantOfFiles(t *testing.T) {
	for at, decision := range map[string]string{"": "Deny", "2037-11-22T00:00:00Z": "Allow", "2037-11-24T00:00:00Z": "Deny"} {
		dir := write(t, map[string]string{"policy.yaml": shifts, "shift.test.yaml": strings.Replace(shiftTests, "DECISION", decision, 1)})
		args := []string{dir}
		if at != "" {
			args = append(args, "--at", at)
		}
		if out, code, err := tests(t, args...); code != 0 || err != nil {
			t.Errorf("test at %q: %d, %v\n%s", at, code, err, out)
		}
		out, code, err := execute(t, NewMatrixCommand, "", append(args, "--user", "alice", "--resource", "pods", "--verb", "get", "-n", "hammer")...)
		if code != 0 || err != nil || strings.Contains(out, "yes") != (decision == "Allow") {
			t.Errorf("matrix at %q: %d, %v\n%s", at, code, err, out)
		}
	}
	dir := write(t, map[string]string{"policy.yaml": shifts, "shift.test.yaml": shiftTests})
	for _, run := range []func() (string, int, error){
		func() (string, int, error) { return tests(t, dir, "--at", "soon") },
		func() (string, int, error) { return execute(t, NewMatrixCommand, "", dir, "--at", "soon") },
	} {
		if _, _, err := run(); err == nil || !strings.Contains(err.Error(), "--at") {
			t.Errorf("--at soon: %v", err)
		}
	}
}
