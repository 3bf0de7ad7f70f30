package policytools

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

const denyProd = `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: no-deletes, namespace: hammer}
rules:
- {verbs: [delete], resourceKinds: [persistentvolumeclaims], deny: true}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: no-deletes, namespace: hammer}
roleRef: {namespace: hammer, name: no-deletes}
groupNames: [team-a, "=cmd"]
`

// TR-11: cells are yes, if, no or denied, with the role behind them, in every form of output.
func TestMatrix(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": volumes + denyProd})
	run := func(args ...string) string {
		t.Helper()
		out, code, err := execute(t, NewMatrixCommand, "", append([]string{"--from", from}, args...)...)
		if code != 0 || err != nil {
			t.Fatalf("%v: %d %v", args, code, err)
		}
		return out
	}
	table := run("--group", "team-a", "--verb", "get,create,delete", "--resource", "persistentvolumeclaims")
	line := strings.Fields(strings.Split(table, "\n")[1])
	if want := []string{"group", "team-a", "hammer", "persistentvolumeclaims", "yes", "if", "denied", "hammer/dev-volumes,", "hammer/no-deletes"}; !slices.Equal(line, want) {
		t.Errorf("%q, want %q", line, want)
	}
	var m accessMatrix
	if err := json.Unmarshal([]byte(run("--resource", "persistentvolumeclaims", "-o", "json", "--namespace", "hammer")), &m); err != nil || m.Kind != "AccessMatrix" || len(m.Rows) != 2 {
		t.Fatalf("%v %+v", err, m)
	}
	if m.Rows[0].Subjects[0].Group != "=cmd" || m.Rows[0].Access["delete"] != plan.Denied || m.Rows[1].Access["create"] != plan.If || m.Rows[1].Access["list"] != "" {
		t.Errorf("%+v", m.Rows)
	}
	records, err := csv.NewReader(strings.NewReader(run("-o", "csv", "--verb", "delete", "--resource", "persistentvolumeclaims", "-n", "hammer"))).ReadAll()
	if err != nil || len(records) != 3 || !slices.Equal(records[1], []string{"group =cmd", "hammer", "", "persistentvolumeclaims", "delete", "denied", "hammer/no-deletes rule 0"}) {
		t.Errorf("%v %q", err, records)
	}
	page := run("-o", "html", "--subject", `group:team-a,<script>`)
	if !strings.Contains(page, `class="denied"`) || !strings.Contains(page, "hammer/no-deletes") || strings.Contains(page, "<script>") {
		t.Error(page)
	}
	// Nobody may do anything: that is an answer, too.
	if out := run("--user", "nobody", "--resource", "persistentvolumeclaims"); !strings.Contains(out, "Nothing is allowed") {
		t.Error(out)
	}
	for _, args := range [][]string{{}, {from, "-o", "yaml"}, {from, "--subject", "group:"}, {from, "--subject", "serviceaccount:x"}, {from, "--resource", "unicorns"}, {filepath.Join(from, "none")}} {
		if _, code, err := execute(t, NewMatrixCommand, "", args...); code != codeUnanswered || err == nil {
			t.Errorf("%v: %d %v", args, code, err)
		}
	}
}

// What is the same everywhere is one line.
func TestMatrixCollapses(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": volumes + `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: viewers, namespace: master}
roleRef: {namespace: master, name: view}
userNames: [ann, bob]
`})
	out, _, err := execute(t, NewMatrixCommand, "", from, "--resource", "pods,services", "--verb", "get,delete")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != 2 || !strings.HasPrefix(lines[1], "ann, bob  *          pods, services  yes  -") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TR-22: a table counts the subjects of the system, but never hides what everybody may do; other forms show all.
func TestMatrixFoldsTheSystem(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": `---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: viewers, namespace: master}
roleRef: {namespace: master, name: view}
userNames: [ann, "system:kube-scheduler", "system:serviceaccount:kube-system:x"]
groupNames: ["system:authenticated"]
`})
	ask := []string{from, "--resource", "pods", "--verb", "get"}
	for _, c := range []struct {
		args          []string
		shows, counts bool
	}{{nil, false, true}, {[]string{"--system"}, true, false}, {[]string{"-o", "csv"}, true, false}, {[]string{"--user", "system:kube-scheduler"}, true, false}} {
		out, code, err := execute(t, NewMatrixCommand, "", append(slices.Clone(ask), c.args...)...)
		if code != 0 || err != nil {
			t.Fatalf("%v: %d %v", c.args, code, err)
		}
		if strings.Contains(out, "system:kube-scheduler") != c.shows || strings.Contains(out, "And 2 users and groups of the system; --system lists them.") != c.counts {
			t.Errorf("%v:\n%s", c.args, out)
		}
		if len(c.args) < 2 && !strings.Contains(out, "system:authenticated") {
			t.Errorf("%v: what everybody may do is hidden:\n%s", c.args, out)
		}
	}
}

// delegates holds rights to write policy: in the master namespace (dora), in another one (hubert), and everywhere
// (clark).
const delegates = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: delegate}
rules: [{apiGroups: [authorization.proviso.dev], resources: [roles], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dora, namespace: master}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: delegate}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: hubert, namespace: hammer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: delegate}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: hubert}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: clark}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: delegate}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: clark}]
`

// PO-6: a right to write the policy of the master namespace counts only if it is held everywhere.
func TestMatrixOfTheMasterNamespace(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": delegates})
	for who, want := range map[string]string{"dora": "master yes -", "hubert": "hammer yes yes", "clark": "* yes yes"} {
		out, code, err := execute(t, NewMatrixCommand, "", from, "--user", who, "--resource", "roles.authorization.proviso.dev", "--verb", "get,create")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		fields := strings.Fields(lines[len(lines)-1])
		if code != 0 || err != nil || len(lines) != 2 || strings.Join(slices.Delete(fields, 2, 3)[1:4], " ") != want {
			t.Errorf("%s: %d %v, want %q\n%s", who, code, err, want, out)
		}
	}
}

// CA-9: a connection takes create in addition to the verb of its method, and the lesser of both is what a subject has.
func TestConnectionsTakeTwoVerbs(t *testing.T) {
	rbac := func(verbs string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: hammer}\nrules:\n- {verbs: [" + verbs + "], apiGroups: [''], resources: [pods/exec]}\n" +
			"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r, namespace: hammer}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\n" +
			"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]\n"
	}
	policy := func(rule string) string {
		return "---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: p, namespace: hammer}\nrules:\n- {resourceKinds: [pods], " + rule + "}\n" +
			"---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: p, namespace: hammer}\nroleRef: {name: p}\nuserNames: [dora]\n"
	}
	const where = `where: 'resource.metadata.name == "a"'`
	none := write(t, map[string]string{"a.yaml": rbac("use")})
	for _, test := range []struct{ name, policy, cells, change string }{
		{"get alone", rbac("get"), "-,-", ""},
		{"create alone", rbac("create"), "-,yes", "create No → Yes"},
		{"both", rbac("get, create"), "yes,yes", "create No → Yes,get No → Yes"},
		{"both under a condition", rbac("use") + policy("verbs: [exec], "+where), "if,if", "create No → If,get No → If"},
		{"get, and a deny", rbac("get, create") + policy("verbs: [exec], deny: true, "+where), "if,if", "create No → If,get No → If"},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := write(t, map[string]string{"a.yaml": test.policy})
			out, _, err := execute(t, NewMatrixCommand, "", from, "--user", "dora", "--resource", "pods/exec", "--verb", "get,create", "-o", "json")
			var m accessMatrix
			if err := json.Unmarshal([]byte(out), &m); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cells := "-,-"
			if len(m.Rows) == 1 {
				cells = cellText(m.Rows[0].Access["get"]) + "," + cellText(m.Rows[0].Access["create"])
			}
			if err != nil || cells != test.cells {
				t.Errorf("%v %s, want %s\n%s", err, cells, test.cells, out)
			}
			out, _, err = plans(t, test.policy, "--from", none, "-f", "-", "-o", "json")
			var p policychange.Report
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got []string
			for _, c := range p.Changes {
				if c.Resource == "pods/exec" && (c.Verb == "get" || c.Verb == "create") {
					got = append(got, fmt.Sprintf("%s %s → %s", c.Verb, c.Before, c.After))
				}
			}
			if slices.Sort(got); err != nil || strings.Join(got, ",") != test.change {
				t.Errorf("%v %v, want %s\n%s", err, got, test.change, out)
			}
		})
	}
	// What one of the two verbs gains, the connection gains.
	from := write(t, map[string]string{"a.yaml": rbac("get")})
	out, code, err := plans(t, rbac("get, create"), "--from", from, "-f", "-")
	if code != 2 || err != nil || !strings.Contains(out, "create,get pods/exec") {
		t.Errorf("%d %v\n%s", code, err, out)
	}
}

// PO-24: a misspelled verb is said to be one. What is so for some Namespaces is told apart from what is so in none, and
// system:masters may do everything.
func TestMatrixOfSpecialCases(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: r, namespace: master}
rules:
- {verbs: ["*"], resourceKinds: [secrets], deny: true}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: r, namespace: master}
roleRef: {namespace: master, name: r}
groupNames: ["system:authenticated"]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: deleter, namespace: a}
rules:
- {verbs: [delete], resourceKinds: [namespaces], where: 'resource.metadata.name != "b"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: deleter, namespace: a}
roleRef: {name: deleter}
userNames: [dora]
`})
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--group", "system:masters", "--resource", "secrets", "--verb", "get"}, "group system:masters * secrets yes"},
		{[]string{"--group", "team", "--resource", "secrets", "--verb", "get"}, "group team * secrets denied"},
		{[]string{"--user", "dora", "--resource", "namespaces", "--verb", "deltee"}, `"deltee" is not a verb of Kubernetes or Proviso (did you mean delete?)`},
		{[]string{"--user", "dora", "--resource", "namespaces", "--verb", "delete"}, "dora -, a namespaces if"},
	} {
		out, code, err := execute(t, NewMatrixCommand, "", append([]string{from}, test.args...)...)
		if code != 0 || err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), test.want) {
			t.Errorf("%v: %d %v, want %q\n%s", test.args, code, err, test.want, out)
		}
	}
}
