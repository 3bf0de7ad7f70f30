package policytools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

const recordedGet = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/hammer/persistentvolumeclaims/a","verb":"get",` +
	`"user":{"username":"ann","groups":["team-a","system:authenticated"]},"objectRef":{"resource":"persistentvolumeclaims","namespace":"hammer","name":"a","apiVersion":"v1"},"requestReceivedTimestamp":"2026-01-02T03:04:05Z"}` + "\n"

// TR-4, TR-16: plan shows which recorded requests flip, and what could not be read.
func TestPlanReplay(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": volumes, "change.yaml": strings.ReplaceAll(volumes, "[get]", "[list]"), "log": recordedGet + "broken\n" + strings.Replace(recordedGet, `"get"`, `"create"`, 1)})
	from, change, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "change.yaml"), filepath.Join(dir, "log")
	out, code, err := plans(t, "", "--from", from, "-f", change, "--replay", log)
	if code != 2 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	for _, want := range []string{"Of 2 recorded requests, 1 would be decided differently.", "ann    get persistentvolumeclaims (a)   hammer      Yes → No", "1 lines could not be read", "line 2: not valid JSON"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _, _ := plans(t, "", "--from", from, "-f", change, "--replay", log, "-o", "markdown"); !strings.Contains(out, "| 1 | ann | get persistentvolumeclaims (a) | hammer | Yes → No |") {
		t.Errorf("%s", out)
	}
	out, _, _ = plans(t, recordedGet, "--from", from, "-f", change, "--replay", "-", "-o", "json")
	var p policychange.Report
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Replay == nil || p.Replay.Requests != 1 || len(p.Replay.Flips) != 1 || p.Replay.Flips[0].User != "ann" {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(log, []byte("{}\nbroken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no requests found in":      {"--from", from, "-f", change, "--replay", log},
		"no such file":              {"--from", from, "-f", change, "--replay", log + ".1"},
		"can read standard input":   {"--from", from, "-f", "-", "--replay", "-"},
		"are mutually exclusive":    {"--from", from, "-f", change, "--kubeconfig", "x"},
		"no such file or directory": {"--kubeconfig", filepath.Join(dir, "none"), "-f", change},
	} {
		if out, code, err := plans(t, "", args...); code != codeUnanswered || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %d %v %s", want, code, err, out)
		}
	}
}

// A dump holds roles in their containers; a change of the role by itself finds it there.
func TestPlanOfContainers(t *testing.T) {
	role, binding, _ := strings.Cut(volumes, "---\n")
	dump := `apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: hammer}
roles:
  dev-volumes: {rules: [{verbs: [get], resourceKinds: [persistentvolumeclaims]}]}
  other: {rules: [{verbs: [get], resourceKinds: [pods]}]}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: hammer, namespace: hammer}
policyRef: {namespace: hammer}
roleBindings:
  dev-volumes: {roleName: dev-volumes, groupNames: [team-a]}
  other: {roleName: other, userNames: [bob]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: made-by-kubernetes, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules: [{verbs: [get], apiGroups: [""], resources: [nodes]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: made-by-kubernetes, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {kind: ClusterRole, name: made-by-kubernetes, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: User, name: scheduler, apiGroup: rbac.authorization.k8s.io}]
`
	from := write(t, map[string]string{"dump.yaml": dump})
	for _, test := range []struct {
		name, change string
		args         []string
		want, not    []string
	}{
		{"delete a role", role, []string{"--delete"}, []string{"group team-a", "Yes → No"}, []string{"bob"}},
		{"delete a binding", binding, []string{"--delete"}, []string{"group team-a", "Yes → No"}, []string{"bob"}},
		{"change it", role, nil, []string{"group team-a", "create persistentvolumeclaims", "No → If"}, []string{"bob", "get persistentvolumeclaims"}},
		{"everything else goes", volumes, []string{"--prune"}, []string{"bob", "Yes → No"}, []string{"scheduler"}},
	} {
		out, code, err := plans(t, test.change, append([]string{"--from", from, "-f", "-"}, test.args...)...)
		if code != 2 {
			t.Errorf("%s: %d %v", test.name, code, err)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out)
			}
		}
		for _, not := range test.not {
			if strings.Contains(out, not) {
				t.Errorf("%s: %q in\n%s", test.name, not, out)
			}
		}
	}
}
