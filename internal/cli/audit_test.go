package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
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
		"user and group": {`apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata, users: [a], userGroups: [b]}]
`, "rule"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := convert(t, tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
