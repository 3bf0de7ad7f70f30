package policytools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const firstPolicy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev-volumes, namespace: hammer}
rules:
- {verbs: [create], resourceKinds: [persistentvolumeclaims], where: resource.spec.storageClassName == "dev"}
- {verbs: [get], resourceKinds: [persistentvolumeclaims]}
- {verbs: [delete], resourceKinds: [pods], deny: true}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev-volumes, namespace: hammer}
roleRef: {namespace: hammer, name: dev-volumes}
groupNames: [team-a]
`

// TR-8: --init writes what the policies decide, so that it passes; it overwrites nothing.
func TestInitWritesWhatIsDecided(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": firstPolicy})
	out, code, err := execute(t, NewTestCommand, "", "--init", dir)
	if code != 0 || err != nil || !strings.Contains(out, "policy.test.yaml has 5 cases") {
		t.Fatalf("%d %v %s", code, err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "policy.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"expect: Allow", "expect: Conditional", "expect: Deny", "- team-a", "namespace: hammer", "- '*.yaml'"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if out, code, err = execute(t, NewTestCommand, "", dir); code != 0 || err != nil || !strings.Contains(out, "5 passed, 0 failed") {
		t.Errorf("%d %v %s", code, err, out)
	}
	if _, code, err = execute(t, NewTestCommand, "", "--init", dir); code != codeUnanswered || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%d %v", code, err)
	}
	if _, _, err = execute(t, NewTestCommand, "", "--init", t.TempDir()); err == nil || !strings.Contains(err.Error(), "nothing to test") {
		t.Errorf("%v", err)
	}
}

// TR-8, TR-16: what is wrong with a test is said in its own words, with the case and the field.
func TestErrorsOfTestsAreClear(t *testing.T) {
	for body, want := range map[string]string{
		"- {name: a, user: x, verb: get, resource: pods, expect: deny}":                     `cases[0] (a): expect.decision: want Allow, Deny or Conditional, not "deny" (did you mean Deny?)`,
		"- {name: a, user: x, verb: get, resource: pods}":                                   "cases[0] (a): expect is missing",
		"- {name: a, user: x, verb: get, resource: pods, expects: Deny}":                    `there is no field "expects" (did you mean expect?)`,
		"- {name: a, user: x, verb: get, resource: pods, expect: {decisoin: Deny}}":         `there is no field "decisoin" (did you mean decision?)`,
		"- {name: a, verb: get, resource: pods, expect: Deny}":                              "cases[0] (a): user: name a user or groups",
		"- {name: a, user: x, verb: get, resource: pods, expect: $(d), each: [{d: Maybe}]}": `cases[0] (a): expect.decision: want Allow, Deny or Conditional, not "Maybe"`,
	} {
		dir := write(t, map[string]string{"a.test.yaml": "apiVersion: tools.proviso.dev/v1alpha1\nkind: PolicyTest\nmetadata: {name: t}\ncases:\n" + body + "\n"})
		_, code, err := execute(t, NewTestCommand, "", dir)
		if code != codeUnanswered || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "JSON") {
			t.Errorf("%s: %d %v\nwant %s", body, code, err, want)
		}
	}
	dir := write(t, map[string]string{"a.test.yaml": "apiVersion: tools.proviso.dev/v1alpha1\nkind: PolicyTest\nmetadata: {name: t}\ncases:\n- {user: x, verb: get, resource: pods, expect: Deny}\n" +
		"- {user: x, verb: get, resource: pods, expect: $(d), each: [{d: Deny}]}\n"})
	if out, code, err := execute(t, NewTestCommand, "", dir); code != 0 || err != nil || !strings.Contains(out, "2 passed") {
		t.Errorf("the short form: %d %v %s", code, err, out)
	}
}
