package policytools

import (
	"encoding/json"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

// TR-2: rules without effect are named with the reason, and so is who may apply a change.
func TestPlanSaysWhatHasNoEffectAndWhoMayApplyIt(t *testing.T) {
	admin := `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writer}
rules: [{verbs: [create, update, delete], apiGroups: [authorization.proviso.dev], resources: [roles, rolebindings]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writers}
roleRef: {kind: ClusterRole, name: writer, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: User, name: walter}, {kind: User, name: emma}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: escalator}
rules: [{verbs: [escalate, bind], apiGroups: [authorization.proviso.dev], resources: [roles]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: escalators}
roleRef: {kind: ClusterRole, name: escalator, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: User, name: emma}]
`
	role, _, _ := strings.Cut(volumes, "---\n")
	from := write(t, map[string]string{"policy.yaml": volumes + admin})
	for _, test := range []struct {
		name, rule, want, not string
	}{
		{"a kind that nobody serves", "{verbs: [get], resourceKinds: [Gizmo]}", `rule 2: no such kind: Gizmo`, ""},
		{"its positive twin", "{verbs: [get], resourceKinds: [Secret]}", "Yes", "without effect"},
		{"a rule that another one makes superfluous", "{verbs: [get], resourceKinds: [persistentvolumeclaims], where: resource.metadata.name == \"a\"}", "rule 2: shadowed by hammer/dev-volumes rule 1", ""},
		{"an allow below a deny", "{verbs: [list], resourceKinds: [pods]}\n- {deny: true, verbs: [list], resourceKinds: [pods]}", "rule 2: shadowed by hammer/dev-volumes rule 3", "rule 3: shadowed"},
		{"a verb that does not go with it", "{verbs: [get], resourceKinds: [persistentvolumeclaims], apiGroups: [apps]}", "rule 2: it never matches", ""},
		{"what the writer does not have", "{verbs: [get], resourceKinds: [secrets]}", "update Role.authorization.proviso.dev hammer/dev-volumes: by emma, group system:masters; not by walter: ", ""},
	} {
		out, code, err := plans(t, strings.TrimSuffix(role, "\n")+"\n- "+test.rule+"\n", "--from", from, "-f", "-")
		if err != nil || !strings.Contains(out, test.want) || test.not != "" && strings.Contains(out, test.not) {
			t.Errorf("%s: %d %v, want %q and not %q\n%s", test.name, code, err, test.want, test.not, out)
		}
	}
	// Nothing that the binding's writer has is missing: a role that gives nothing.
	empty := "apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: empty, namespace: hammer}\nrules: []\n"
	if out, _, err := plans(t, empty, "--from", from, "-f", "-"); err != nil || !strings.Contains(out, "create Role.authorization.proviso.dev hammer/empty: by emma, walter, group system:masters") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err := plans(t, role, "--from", from, "-f", "-", "--delete", "-o", "json")
	var p policychange.Report
	if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.AppliedBy) != 1 || p.AppliedBy[0].Verb != "delete" || len(p.AppliedBy[0].Subjects) != 3 || len(p.WithoutEffect) != 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if err != nil {
		t.Error(err)
	}
}
