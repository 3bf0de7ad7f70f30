package policytools

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"proviso.dev/proviso/internal/hosts/offline/policytest"
)

// tests runs `proviso test`.
func tests(t *testing.T, args ...string) (out string, code int, said error) {
	t.Helper()
	return execute(t, NewTestCommand, "", args...)
}

// isPolicy reports whether an example is a directory with policy, and not a program.
func isPolicy(example string) bool {
	info, err := os.Stat(example)
	_, noModule := os.Stat(filepath.Join(example, "go.mod"))
	return err == nil && info.IsDir() && noModule != nil
}

// TR-8: every example has tests, and they hold.
func TestExamplesHold(t *testing.T) {
	directories, err := filepath.Glob("../../../examples/*")
	if err != nil || len(directories) < 10 {
		t.Fatalf("%v %v", directories, err)
	}
	for _, dir := range directories {
		if !isPolicy(dir) {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if out, code, err := tests(t, dir); code != 0 {
				t.Errorf("exit code %d: %v\n%s", code, err, out)
			}
		})
	}
	out, code, err := tests(t, "../../../examples", "--threshold", "80")
	if code != 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const volumes = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev-volumes, namespace: hammer}
rules:
- verbs: [create]
  resourceKinds: [persistentvolumeclaims]
  where: resource.spec.storageClassName == "dev"
  description: only storage class dev
- verbs: [get]
  resourceKinds: [persistentvolumeclaims]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev-volumes, namespace: hammer}
roleRef: {namespace: hammer, name: dev-volumes}
groupNames: [team-a]
`

const volumesTest = `apiVersion: tools.proviso.dev/v1alpha1
kind: PolicyTest
metadata: {name: volumes}
policies: [../*.yaml]
cases:
- name: dev is allowed
  user: edgar
  groups: [team-a]
  verb: create
  resource: persistentvolumeclaims
  namespace: hammer
  object: {metadata: {name: a}, spec: {storageClassName: CLASS}}
  expect: {decision: Allow, rule: hammer/dev-volumes, message: only storage class dev}
- name: others are not
  user: nobody
  verb: create
  resource: persistentvolumeclaims
  namespace: hammer
  expect: {decision: Deny, rule: none}
`

// TR-8, TR-16: what holds and what does not, in every form, with the trace of what does not.
func TestCasesHoldOrFail(t *testing.T) {
	good := write(t, map[string]string{"policy.yaml": volumes, "tests/volumes.test.yaml": strings.ReplaceAll(volumesTest, "CLASS", "dev")})
	bad := write(t, map[string]string{"policy.yaml": volumes, "tests/volumes.test.yaml": strings.ReplaceAll(volumesTest, "CLASS", "prod")})
	if out, code, err := tests(t, good); code != 0 || !strings.Contains(out, "2 passed, 0 failed") {
		t.Errorf("%d %v %s", code, err, out)
	}
	out, code, _ := tests(t, bad)
	for _, want := range []string{"FAIL volumes/dev is allowed", "decision is Deny, want Allow", "hammer/dev-volumes", `object.spec.storageClassName == "dev" is False`, "1 passed, 1 failed"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
	if out, code, _ := tests(t, bad, "--run", "others"); code != 0 || !strings.Contains(out, "1 passed") {
		t.Errorf("--run: %d %s", code, out)
	}
	if out, code, _ := tests(t, good, "--coverage"); code != 0 || !strings.Contains(out, "1 of 2 rules decided a case (50%)") || !strings.Contains(out, "never: hammer/dev-volumes rule 1") {
		t.Errorf("--coverage: %d %s", code, out)
	}
	if out, code, _ := tests(t, good, "--threshold", "51"); code != 1 {
		t.Errorf("--threshold: %d %s", code, out)
	}
	out, code, _ = tests(t, bad, "-o", "junit")
	var suites junitSuites
	if err := xml.Unmarshal([]byte(out), &suites); err != nil || code != 1 || suites.Failures != 1 || suites.Tests != 2 || suites.Suites[0].Cases[0].Failure == nil {
		t.Errorf("junit: %d %v\n%s", code, err, out)
	}
	out, code, _ = tests(t, bad, "-o", "json")
	var r policytest.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.Failed != 1 || r.Cases[0].Decision != "Deny" || r.Cases[0].Trace == nil {
		t.Errorf("json: %d %v\n%s", code, err, out)
	}
}

// What cannot be decided is code 3, with the place: it never counts as passed.
func TestBadTestsAreNoTests(t *testing.T) {
	test := strings.ReplaceAll(volumesTest, "CLASS", "dev")
	for name, files := range map[string]map[string]string{
		"no policy tests in":         {"policy.yaml": volumes},
		"policies[0]":                {"tests/volumes.test.yaml": test},
		"document 1":                 {"policy.yaml": "kind: [", "tests/volumes.test.yaml": test},
		"expect.decision":            {"policy.yaml": volumes, "tests/a.test.yaml": strings.ReplaceAll(test, "decision: Allow", "decision: Maybe")},
		"did you mean user":          {"policy.yaml": volumes, "tests/a.test.yaml": strings.ReplaceAll(test, "user: edgar", "usr: edgar")},
		"tools.proviso.dev/v1alpha1": {"policy.yaml": volumes, "tests/a.test.yaml": strings.ReplaceAll(test, "v1alpha1", "v9")},
		"name a user":                {"policy.yaml": volumes, "tests/a.test.yaml": strings.ReplaceAll(test, "user: nobody", "user: ''")},
	} {
		out, code, err := tests(t, write(t, files))
		if code != codeUnanswered || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q: %d %v %s", name, code, err, out)
		}
	}
	for flag, value := range map[string]string{"-o": "csv", "--threshold": "101", "--run": "("} {
		if _, code, err := tests(t, flag, value); code != codeUnanswered || err == nil {
			t.Errorf("%s %s: %d", flag, value, code)
		}
	}
	// A resource that nobody serves is a failing case, not a refusal that was expected.
	odd := write(t, map[string]string{"policy.yaml": volumes, "tests/a.test.yaml": strings.ReplaceAll(test, "resource: persistentvolumeclaims", "resource: volumeclaims")})
	if out, code, _ := tests(t, odd); code != 1 || !strings.Contains(out, "0 passed, 2 failed") {
		t.Errorf("%d %s", code, out)
	}
}

// BenchmarkCases is TR-8's speed: at least 10,000 cases a second.
func BenchmarkCases(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(volumes), 0o600); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "a.test.yaml")
	text := strings.ReplaceAll(strings.ReplaceAll(volumesTest, "CLASS", "dev"), "../*.yaml", "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	tests, err := policytest.Find([]string{dir})
	if err != nil {
		b.Fatal(err)
	}
	const cases = 5000
	tests[0].Cases = slices.Repeat(tests[0].Cases[:1], cases)
	for i := range tests[0].Cases {
		tests[0].Cases[i].Expect = policytest.Expectation{Decision: "Allow"}
	}
	var begin, end syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &begin); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if result, err := (&policytest.Runner{MasterNamespace: "master"}).Run(b.Context(), tests); err != nil || result.Failed > 0 {
			b.Fatal(err, result)
		}
	}
	b.ReportMetric(float64(cases*b.N)/b.Elapsed().Seconds(), "cases/s")
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &end); err == nil { // what others take of a busy machine does not count
		used := end.Utime.Nano() + end.Stime.Nano() - begin.Utime.Nano() - begin.Stime.Nano()
		b.ReportMetric(float64(cases*b.N)/(float64(used)/1e9), "cases/s/core")
	}
}
