package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/engine/auditrule"
)

func convert(t *testing.T, content string) (out, errOut string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	o := &AuditConvertOptions{File: file, Name: "security", IOStreams: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}}
	err = o.Run()
	return stdout.String(), stderr.String(), err
}

// DA-5: a policy file becomes a sink with its classes, and that becomes a policy with the same rules again.
func TestAuditConvertThereAndBack(t *testing.T) {
	sink, _, err := convert(t, `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, users: ["system:kube-proxy"], verbs: [watch]}
- {level: RequestResponse, resources: [{group: "", resources: [secrets]}]}
- {level: Metadata}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: AuditClass", "kind: AuditSink", "name: security", "system:kube-proxy", "level: RequestResponse"} {
		if !strings.Contains(sink, want) {
			t.Errorf("no %q in\n%s", want, sink)
		}
	}
	back, _, err := convert(t, sink)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: Policy", "system:kube-proxy", "- secrets", "level: RequestResponse", "level: Metadata"} {
		if !strings.Contains(back, want) {
			t.Errorf("no %q in\n%s", want, back)
		}
	}
}

// SV-7: what cannot be converted is refused with the place and what is wanted.
func TestAuditConvertRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"another kind":  {"kind: Pod\n", "want Policy"},
		"nothing":       {"\n", "want one Policy"},
		"unknown field": {"apiVersion: audit.k8s.io/v1\nkind: Policy\nrulez: []\n", "rulez"},
		"verb": {`apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata, verbs: ["*"]}]
`, "rule"},
		"two policies":    {"{kind: List, items: [{apiVersion: audit.k8s.io/v1, kind: Policy, rules: []}, {apiVersion: audit.k8s.io/v1, kind: Policy, rules: []}]}", "want one Policy"},
		"a pod in a list": {"{kind: List, items: [{kind: Pod}]}", `items[0]: kind "Pod"`},
		"two sinks":       {"{kind: AuditSinkList, items: [{metadata: {name: b}}, {metadata: {name: a}}]}", "choose one of a, b"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := convert(t, tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// DA-18: what kubectl prints is read, the sink is the one that is named, managed fields are omitted as before, and what
// a policy cannot say is reported.
func TestAuditConvertLists(t *testing.T) {
	const list = `{apiVersion: v1, kind: List, metadata: {resourceVersion: ""}, items: [
  {apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: c, uid: x}, spec: {rules: [
    {subjects: [{type: User, names: [a]}, {type: UserGroup, names: [b]}], allSubjects: true}]}},
  {apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: other}, spec: {policy: {level: Metadata}}, status: {}},
  {apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: security}, spec: {omitManagedFields: true, notAfter: "2031-01-01T00:00:00Z",
    reveal: [example.com/x], redact: {permissions: [example.com/y]}, policy: {rules: [{level: Request, withAuditClass: c}]}}}]}`
	out, errOut, err := convert(t, list)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: Policy", "omitManagedFields: true", "userGroups:\n  - b\n  users:\n  - a\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{"spec.notAfter", "spec.redact", "spec.reveal"} {
		if !strings.Contains(errOut, "left out: "+want) {
			t.Errorf("%s is not reported as lost: %s", want, errOut)
		}
	}
	back, errOut, err := convert(t, out)
	if err != nil || !strings.Contains(back, "omitManagedFields: true") || !strings.Contains(back, "allSubjects: true") || strings.Contains(errOut, "omitManagedFields") {
		t.Errorf("%v %s\n%s", err, errOut, back)
	}
}

// DA-18: a compiled policy is printed as one that can be read again, and a text of others cannot end its comment.
func TestEffectiveText(t *testing.T) {
	policy := &auditv1.Policy{OmitManagedFields: true, OmitStages: []auditv1.Stage{"RequestReceived"}, Rules: []auditv1.PolicyRule{{Level: "Request", Users: []string{"a\nb"}}, {Level: "None"}}}
	text, err := effectiveText(&auditrule.Effective{Sink: "s", Generation: 3, Reason: "Active", Policy: policy, From: [][]string{{"x", "y\nrules: []"}, {"spec.policy.level"}}})
	if err != nil {
		t.Fatal(err)
	}
	var back auditv1.Policy
	if err := yaml.UnmarshalStrict([]byte(text), &back); err != nil || len(back.Rules) != 2 || back.Rules[0].Users[0] != "a\nb" || !back.OmitManagedFields || back.Kind != "Policy" {
		t.Errorf("%v %+v in\n%s", err, back, text)
	}
	for _, want := range []string{"# AuditSink s, generation 3: Active\n", "# x; y\\nrules: []\n- level: Request", "# spec.policy.level\n- level: None"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text, err = effectiveText(&auditrule.Effective{Sink: "s", Reason: "Active", Problem: "decisions have no equivalent"})
	if err != nil || text != "# AuditSink s, generation 0: Active\n# decisions have no equivalent\n" {
		t.Errorf("%v %s", err, text)
	}
}
