package policytools

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/lint"
)

var update = flag.Bool("update", false, "write what is generated from the code")

// lints runs `proviso lint`.
func lints(t *testing.T, args ...string) (out string, code int, said error) {
	t.Helper()
	return execute(t, NewLintCommand, "", args...)
}

// sections reads a file of several: "-- name --" begins each.
func sections(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		if begins, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(begins, " --\n")
			continue
		}
		out[name] += line
	}
	return out
}

func findings(t *testing.T, live lister, args ...string) (report lintReport, code int) {
	t.Helper()
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return newLintCommand(streams, live) }
	out, code, err := execute(t, command, "", append(args, "-o", "json", "--severity", "note")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Kind != "LintReport" {
		t.Fatalf("%v\n%s", err, out)
	}
	return report, code
}

// TR-9: every code has policy that triggers it, with the exact place, and its twin that does not.
func TestLintCodes(t *testing.T) {
	for _, code := range lint.Codes() {
		t.Run(code.ID, func(t *testing.T) {
			parts := sections(t, filepath.Join("testdata", "lint", code.ID+".txt"))
			dir := write(t, map[string]string{"bad.yaml": parts["bad.yaml"], "good.yaml": parts["good.yaml"]})
			report, exited := findings(t, having(parts["live"]), filepath.Join(dir, "bad.yaml"))
			var got []string
			wantExit, worst := 0, lint.Note
			for _, f := range report.Findings {
				if f.Severity == lint.Error {
					wantExit = codeNo
				}
				if f.Code != code.ID {
					continue
				}
				got = append(got, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Severity))
				if f.Message == "" || f.Remedy == "" || !strings.HasSuffix(f.Page, "#"+strings.ToLower(code.ID)) || filepath.Base(f.File) != "bad.yaml" {
					t.Errorf("%+v", f)
				}
				if f.Severity.Rank() < worst.Rank() {
					worst = f.Severity
				}
			}
			slices.Sort(got)
			want := strings.Split(strings.TrimSpace(parts["want"]), "\n")
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("found %v, want %v:\n%+v", got, want, report.Findings)
			}
			if worst.Rank() < code.Worst.Rank() || exited != wantExit {
				t.Errorf("worst %s, code says %s; exit code %d, want %d", worst, code.Worst, exited, wantExit)
			}
			report, _ = findings(t, having(parts["live"]), filepath.Join(dir, "good.yaml"))
			for _, f := range report.Findings {
				if f.Code == code.ID {
					t.Errorf("the good one: %+v", f)
				}
			}
		})
	}
}

// TR-9: the examples of this repository have no errors.
func TestLintExamples(t *testing.T) {
	directories, err := filepath.Glob("../../../examples/*")
	if err != nil || len(directories) < 10 {
		t.Fatalf("%v %v", directories, err)
	}
	for _, dir := range directories {
		if isPolicy(dir) {
			if out, code, err := lints(t, "--from", dir); code != 0 || err != nil {
				t.Errorf("%s: %d %v\n%s", dir, code, err, out)
			}
		}
	}
}

// TR-9, TR-16: SARIF has what code-scanning tools demand: rules with help, and results with level, place and
// fingerprint.
func TestLintSARIF(t *testing.T) {
	parts := sections(t, "testdata/lint/PV010.txt")
	dir := write(t, map[string]string{"bad.yaml": parts["bad.yaml"]})
	out, code, err := lints(t, dir, "-o", "sarif")
	var log sarif
	if err := json.Unmarshal([]byte(out), &log); err != nil || code != 1 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name == "" || err != nil {
		t.Fatalf("%+v", log)
	}
	run := log.Runs[0]
	for _, rule := range run.Tool.Driver.Rules {
		if rule.ID == "" || rule.Name == "" || rule.Short.Text == "" || rule.Full.Text == "" || rule.Help.Text == "" || !strings.HasPrefix(rule.HelpURI, "https://") || rule.Default.Level == "" {
			t.Errorf("%+v", rule)
		}
	}
	if len(run.Results) == 0 {
		t.Fatal("no results")
	}
	for _, r := range run.Results {
		at := r.Locations[0].Physical
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || !slices.Contains([]string{"error", "warning", "note"}, r.Level) || r.Message.Text == "" || len(r.Fingerprints) == 0 ||
			at == nil || !strings.HasSuffix(at.Artifact.URI, "bad.yaml") || at.Region.Line < 1 || at.Region.Column < 1 {
			t.Errorf("%+v", r)
		}
	}
}

// Flags, places inside of containers and lists, and what cannot be read.
func TestLintCommand(t *testing.T) {
	parts := sections(t, "testdata/lint/PV005.txt")
	dir := write(t, map[string]string{"bad.yaml": parts["bad.yaml"]})
	if out, code, err := lints(t, dir); code != 0 || !strings.Contains(out, "bad.yaml:6:3: warning PV005: Role hammer/a rules[0]: what the rule denies is allowed anyway, by rule 0 of ClusterRole all") || err != nil {
		t.Errorf("%d %v\n%s", code, err, out)
	}
	if out, _, _ := lints(t, dir, "--ignore", "PV005"); strings.Contains(out, "PV005") {
		t.Errorf("%s", out)
	}
	if out, _, _ := lints(t, dir, "--severity", "error"); strings.Contains(out, "PV005") || !strings.Contains(out, "1 warning,") {
		t.Errorf("%s", out)
	}
	if out, code, _ := lints(t, "--explain", "PV005"); code != 0 || !strings.Contains(out, "A deny rule changes nothing") {
		t.Errorf("%d %s", code, out)
	}
	container := `apiVersion: v1
kind: List
items:
- apiVersion: policy.proviso.dev/v1alpha1
  kind: Policy
  metadata: {name: default, namespace: hammer}
  roles:
    a:
      metadata: {name: a, namespace: hammer}
      rules:
      - verbs: [gte]
        resourceKinds: [pods]
`
	dir = write(t, map[string]string{"dump.yaml": container})
	if out, code, _ := lints(t, dir); code != 1 || !strings.Contains(out, "dump.yaml:11:17: error PV011") {
		t.Errorf("%d %s", code, out)
	}
	for _, args := range [][]string{{}, {dir, "-o", "csv"}, {dir, "--severity", "bad"}, {dir, "--ignore", "PV999"}, {filepath.Join(dir, "none")}, {write(t, map[string]string{"a.yaml": "# nothing\n"})}} {
		if _, code, err := lints(t, args...); code != codeUnanswered || err == nil {
			t.Errorf("%v: %d %v", args, code, err)
		}
	}
}

// Every code has its section on the page, which is written from the code: go test ./internal/cli/policytools -run
// LintPage -update.
func TestLintPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("<!-- Written by go test ./internal/cli/policytools -run LintPage -update. -->\n\n# What proviso lint finds\n\n" +
		"`proviso lint` is described in [a guide](../how-to/lint-policy.md). A code never changes its meaning, and is never given away again.\n\n| code | finds | at worst |\n|---|---|---|\n")
	for _, c := range lint.Codes() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", c.ID, strings.ToLower(c.ID), c.Title, c.Worst)
	}
	for _, c := range lint.Codes() {
		parts := sections(t, filepath.Join("testdata", "lint", c.ID+".txt"))
		fmt.Fprintf(&b, "\n## %s\n\n**%s.** %s\n\n%s\n\n```yaml\n%s```\n\nNot so here:\n\n```yaml\n%s```\n", c.ID, c.Title, c.Why, c.Do, parts["bad.yaml"], parts["good.yaml"])
		if live := parts["live"]; live != "" {
			fmt.Fprintf(&b, "\nwith these objects and their labels:\n\n```text\n%s```\n", live)
		}
	}
	const page = "../../../" + lintPage
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != b.String() {
		t.Errorf("%s is not what the codes say: go test ./internal/cli/policytools -run LintPage -update (%v)", lintPage, err)
	}
}

// TR-9: each of the known ways to more than what was granted is an error if everybody has it, by RBAC and by Policy,
// and its harmless twin is not.
func TestLintKnowsPowerfulGrants(t *testing.T) {
	const role = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, rules: [{verbs: [%s], apiGroups: ["%s"], resources: ["%s"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: r}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]}
`
	for _, tc := range []struct {
		verbs, group, resources string
		bad                     bool
	}{
		{"create", "apps", "daemonsets", true}, {"patch", "apps", "replicasets", true}, {"update", "apps", "deployments", true}, {"create", "batch", "cronjobs", true},
		{"create", "", "pods/attach", true}, {"get", "", "pods/exec", true}, {"patch", "", "pods/ephemeralcontainers", true}, {"watch", "", "secrets", true}, {"get", "", "nodes/proxy", true},
		{"patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", true}, {"create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", true},
		{"create", "admissionregistration.k8s.io", "mutatingadmissionpolicies", true}, {"patch", "apiregistration.k8s.io", "apiservices", true},
		{"update", "apiextensions.k8s.io", "customresourcedefinitions", true}, {"create", "", "persistentvolumes", true}, {"escalate", "rbac.authorization.k8s.io", "roles", true},
		{"patch", "certificates.k8s.io", "certificatesigningrequests/approval", true},
		{"get", "apps", "daemonsets", false}, {"get", "", "pods", false}, {"get", "", "pods/log", false}, {"create", "", "configmaps", false}, {"get", "", "persistentvolumes", false},
		{"list", "apiextensions.k8s.io", "customresourcedefinitions", false}, {"get", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", false},
	} {
		dir := write(t, map[string]string{"p.yaml": fmt.Sprintf(role, tc.verbs, tc.group, tc.resources)})
		report, _ := findings(t, nil, dir)
		found := slices.ContainsFunc(report.Findings, func(f lintFinding) bool { return f.Code == "PV013" && f.Severity == lint.Error })
		if found != tc.bad {
			t.Errorf("%s %s.%s: found %v, want %v", tc.verbs, tc.resources, tc.group, found, tc.bad)
		}
	}
}

// TR-9: a where never holds for a request whose body is not the object, and an object of a namespaced resource always
// has a namespace.
func TestLintKnowsWhatRequestsShow(t *testing.T) {
	const role = `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: r, namespace: master}, rules: [%s]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: r, namespace: master}, roleRef: {namespace: master, name: r}, userNames: [ann]}
`
	for rule, want := range map[string]string{
		// CA-26: on a connection that is named, where is about the target.
		`{verbs: [create], resourceKinds: [pods/exec], where: 'resource.metadata.name == "x"'}`:                             "",
		`{verbs: ['*'], resourceKinds: [pods/exec], where: 'resource.metadata.name == "x"'}`:                                "",
		`{verbs: [create], resourceKinds: ['*/exec'], where: 'resource.metadata.name == "x"'}`:                              "",
		`{verbs: [proxy], resourceKinds: [nodes], where: 'resource.metadata.name == "x" && resource.metadata.name == "y"'}`: "PV009",
		`{verbs: [exec], resourceKinds: [pods], where: 'resource.metadata.namespace == "x"'}`:                               "",
		`{verbs: [exec], resourceKinds: [pods], where: 'resource.metadata.namespace != ""'}`:                                "PV008",
		`{deny: true, verbs: [exec], resourceKinds: [pods], where: 'resource.metadata.?labels.debug.orValue("") == "x"'}`:   "",
		`{verbs: [create], resourceKinds: [pods/eviction], where: 'resource.metadata.name == "x"'}`:                         "PV009",
		`{verbs: [exec], resourceKinds: [pods], where: 'resource.metadata.name == "x"'}`:                                    "",
		`{verbs: [exec], resourceKinds: [pods], when: 'object.metadata.name == "x"'}`:                                       "PV009 PV015",
		`{verbs: [exec], resourceKinds: [pods], when: 'target.metadata.name == "x"'}`:                                       "",
		`{deny: true, verbs: [exec], resourceKinds: [pods], when: 'target.metadata.?labels.debug.orValue("") == "x"'}`:      "",
		`{verbs: [exec], resourceKinds: [pods], when: 'target.metadata.name == "x" && target.metadata.name == "y"'}`:        "PV009",
		`{verbs: [create], resourceKinds: [pods/exec], when: 'request.name == "x"'}`:                                        "",
		`{verbs: [update], resourceKinds: [pods/status], where: 'resource.metadata.name == "x"'}`:                           "",
		`{verbs: [create], resourceKinds: [pods/exec, pods], where: 'resource.metadata.namespace == "x"'}`:                  "",
		`{verbs: [get], resourceKinds: [pods/log], where: 'resource.metadata.name == "x"'}`:                                 "",
		`{verbs: [delete], resourceKinds: [configmaps], where: 'resource.metadata.namespace == "x"'}`:                       "",
		`{verbs: [delete], resourceKinds: [persistentvolumes], where: 'resource.metadata.namespace == "x"'}`:                "PV015",
	} {
		dir := write(t, map[string]string{"p.yaml": fmt.Sprintf(role, rule)})
		report, _ := findings(t, nil, dir)
		var got []string
		for _, f := range report.Findings {
			if f.Code == "PV008" || f.Code == "PV009" || f.Code == "PV015" {
				got = append(got, f.Code)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %q", rule, got, want)
		}
	}
}

// TR-9: of several bindings that name an account, the same one is reported each time.
func TestLintIsStable(t *testing.T) {
	text := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [''], resources: [pods], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: hammer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: reader, namespace: hammer}
rules: [{verbs: [get], resourceKinds: [secrets]}]
`
	for i := range 6 {
		text += fmt.Sprintf("---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: b%d, namespace: hammer}\nroleRef: {name: reader}\nuserNames: ['system:serviceaccount:hammer:robot']\n", i)
	}
	from := write(t, map[string]string{"policy.yaml": text})
	for range 5 {
		if out, _, err := lints(t, "--from", from); err != nil || !strings.Contains(out, "PV014: RoleBinding hammer/b0 userNames[0]") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
