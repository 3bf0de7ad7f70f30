package policytools

import (
	"strings"
	"testing"
)

// TR-6: plan, matrix and lint go by what is enforced: a rule that is not changes nothing, and is no mistake; enforced
// it changes something.
func TestShadowDecidesNothing(t *testing.T) {
	const base = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: maps, namespace: hammer}
rules:
- {verbs: [get, create], resourceKinds: [configmaps]}
`
	const binding = `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: maps, namespace: hammer}
roleRef: {namespace: hammer, name: maps}
userNames: [edgar]
`
	allow, deny := "- {verbs: [delete], resourceKinds: [configmaps]%s}\n", "- {deny: true, verbs: [create], resourceKinds: [configmaps]%s}\n"
	shaded := strings.ReplaceAll(base+allow+deny, "%s", ", enforcement: Shadow")
	enforced := strings.ReplaceAll(base+allow+deny, "%s", ", enforcement: Enforce")
	dir := write(t, map[string]string{"now/policy.yaml": base + binding, "shaded/policy.yaml": shaded + binding, "shaded.yaml": shaded, "enforced.yaml": enforced})

	out, code, err := execute(t, NewPlanCommand, "", "--from", dir+"/now", "-f", dir+"/shaded.yaml")
	if code != 0 || err != nil {
		t.Errorf("a plan to add rules that are not enforced: %d, %v\n%s", code, err, out)
	}
	if out, code, err = execute(t, NewPlanCommand, "", "--from", dir+"/shaded", "-f", dir+"/enforced.yaml"); code != 2 || !strings.Contains(out, "edgar") {
		t.Errorf("a plan to enforce them: %d, %v\n%s", code, err, out)
	}
	now, _, _ := execute(t, NewMatrixCommand, "", "--from", dir+"/now", "-o", "csv")
	if out, _, err = execute(t, NewMatrixCommand, "", "--from", dir+"/shaded", "-o", "csv"); out != now || err != nil || !strings.Contains(out, "edgar") {
		t.Errorf("the matrix has changed: %v\n%s\n%s", err, now, out)
	}
	if out, code, err = execute(t, NewLintCommand, "", "--from", dir+"/shaded", "--severity", "note"); code != 0 || err != nil || strings.Contains(out, "rules[1]") || strings.Contains(out, "rules[2]") {
		t.Errorf("lint: %d, %v\n%s", code, err, out)
	}
}
