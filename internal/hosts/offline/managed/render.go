package managed

import (
	"bytes"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/platform/terminal"
)

// The files of a compiled policy, in the order in which they are applied.
const (
	PoliciesFile = "1-policies.yaml"
	GrantsFile   = "2-grants.yaml"
)

// Header says in comments what was compiled, how to apply and to remove it, and the verdict on each rule.
func Header(result *compile.Result) []byte {
	var b bytes.Buffer
	b.WriteString("# Compiled by proviso compile for a stock API server: RBAC and ValidatingAdmissionPolicies only.\n" +
		"# Apply the policies, wait until `proviso compile verify` succeeds, and apply the grants. To remove: the grants first.\n" +
		"# Do not use `kubectl apply --prune`: it removes policies and grants in any order.\n")
	for _, f := range result.Assessments {
		terminal.Fprintf(&b, "# %s: %s", f.Rule, f.Verdict)
		if text := f.Text(); text != "" {
			terminal.Fprintf(&b, ": %s", text)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Objects are compiled objects as they are sent: without what only a server sets.
func Objects(objects []runtime.Object) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		all = append(all, &unstructured.Unstructured{Object: content})
	}
	return all, nil
}

// Write writes objects as YAML.
func Write(out io.Writer, objects []runtime.Object) error {
	all, err := Objects(objects)
	if err != nil {
		return err
	}
	for _, o := range all {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		text, err := terminal.YAML(data)
		if err != nil {
			return err
		}
		if _, err := terminal.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
