package policytools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

// many writes a policy as a dump has it: n role bindings of view in one namespace, each for one user, and an admin of
// everything beside administrators of 100 namespaces.
func many(tb testing.TB, n int) string {
	tb.Helper()
	var b bytes.Buffer
	rbac := func(kind, metadata, content string) {
		fmt.Fprintf(&b, "---\n{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":%q,\"metadata\":{%s},%s}\n", kind, metadata, content)
	}
	named := func(namespace, name string) string {
		return fmt.Sprintf(`"namespace":%q,"name":%q,"uid":"6f9bd2a0-%s","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z"`, namespace, name, name)
	}
	bound := func(kind, role, user string) string {
		return fmt.Sprintf(`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]`, kind, role, user)
	}
	rbac("ClusterRole", `"name":"cluster-admin"`, `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]`)
	rbac("ClusterRole", `"name":"view"`, `"rules":[{"apiGroups":[""],"resources":["configmaps","pods","pods/log","services","endpoints","events"],"verbs":["get","list","watch"]},{"apiGroups":["apps"],"resources":["deployments","replicasets"],"verbs":["get","list","watch"]}]`)
	rbac("ClusterRole", `"name":"edit"`, `"rules":[{"apiGroups":[""],"resources":["configmaps","pods","services"],"verbs":["*"]}]`)
	rbac("ClusterRole", `"name":"names"`, `"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["a","b","c","d","e","f"],"verbs":["get","update"]}]`)
	rbac("ClusterRoleBinding", `"name":"root"`, bound("ClusterRole", "cluster-admin", "root"))
	for i := range 100 {
		ns := fmt.Sprint("team-", i)
		rbac("RoleBinding", named(ns, "edit"), bound("ClusterRole", "edit", fmt.Sprint("editor-", i)))
		rbac("RoleBinding", named(ns, "root"), bound("ClusterRole", "view", "root"))
	}
	for i := range n {
		rbac("RoleBinding", named("default", fmt.Sprintf("view-%06d", i)), bound("ClusterRole", "view", fmt.Sprintf("user-%06d", i)))
	}
	name := filepath.Join(tb.TempDir(), "dump.yaml")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return name
}

// forEverybody denies something to all who are logged in.
const forEverybody = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: no-config, namespace: default}
rules: [{deny: true, verbs: [get, list, watch], resourceKinds: [configmaps]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: no-config, namespace: default}
roleRef: {namespace: default, name: no-config}
groupNames: ["system:authenticated"]
`

const oneMore = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: one-more, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: user-000000}]
`

const rootBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: root}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: root}]
`

// TR-5: many who have the same are one change, of whom some are named and all counted; many namespaces in which
// somebody has the same are one, too.
func TestPlanOfMany(t *testing.T) {
	from := many(t, 3000)
	ask := func(change string, args ...string) (p policychange.Report) {
		t.Helper()
		out, code, err := plans(t, change, append([]string{"--from", from, "-f", "-", "-o", "json"}, args...)...)
		if err != nil || code != codeChanges || json.Unmarshal([]byte(out), &p) != nil {
			t.Fatalf("%d %v %.1000s", code, err, out)
		}
		return p
	}
	find := func(p policychange.Report, verb, resource string) (found []policychange.Change) {
		for _, c := range p.Changes {
			if c.Verb == verb && c.Resource == resource && c.APIGroup == "" {
				found = append(found, c)
			}
		}
		return found
	}
	if p := ask(oneMore); p.Tally != (policychange.Tally{Gain: 1}) || len(find(p, "create", "pods")) != 1 || len(find(p, "get", "pods")) != 0 {
		t.Errorf("one more binding: %+v", p)
	}
	p := ask(forEverybody, "--limit=100")
	if all := find(p, "get", "configmaps"); p.Tally.Lose != 3000 || len(p.Changes) != 6 || len(all) != 2 || len(all[0].Subjects) != 100 || all[0].MoreSubjects != 2900 || all[0].Namespace != "default" {
		t.Errorf("for everybody: %+v, %d changes", p.Tally, len(p.Changes))
	}
	p = ask(rootBinding, "--delete")
	deleted, read := find(p, "delete", "pods"), find(p, "get", "pods")
	if p.Tally != (policychange.Tally{Lose: 1}) || len(deleted) != 1 || deleted[0].Namespace != "*" || deleted[0].ExceptNamespaces != nil {
		t.Errorf("who may do everything: %+v %+v", p.Tally, deleted)
	}
	if len(read) != 1 || read[0].Namespace != "*" || len(read[0].ExceptNamespaces) != 100 || read[0].Subject.User != "root" {
		t.Errorf("what he keeps in 100 namespaces: %+v", read)
	}
}

// BenchmarkPlan is the whole of a plan over files, loading included (PROVISO_BINDINGS=100000).
func BenchmarkPlan(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("PROVISO_BINDINGS"))
	if n == 0 {
		n = 100_000
	}
	from := many(b, n)
	for _, test := range []struct {
		name, change string
		args         []string
	}{
		{"binding", oneMore, nil}, {"everybody", forEverybody, []string{"--limit=100"}}, {"cluster admin", rootBinding, []string{"--delete"}},
	} {
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				out, code, err := execute(b, NewPlanCommand, test.change, append([]string{"--from", from, "-f", "-", "-o", "json"}, test.args...)...)
				if code != codeChanges || err != nil {
					b.Fatalf("%d %v %.1000s", code, err, out)
				}
				b.Logf("%s: %d KB", time.Since(began).Round(time.Millisecond), len(out)/1024)
			}
		})
	}
}
