package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/platform/terminal"
)

// NewAuditCommand returns `proviso audit`.
func NewAuditCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Work with audit policies and sinks"}
	cmd.AddCommand(newAuditConvertCommand(streams), newAuditEffectiveCommand(streams), newAuditTailCommand(streams))
	return cmd
}

// AuditConvertOptions are the flags of `proviso audit convert`.
type AuditConvertOptions struct {
	File string
	Name string

	genericiooptions.IOStreams
}

func newAuditConvertCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &AuditConvertOptions{Name: "converted", IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Turn an audit policy file into a sink and its classes, or back",
		Long: `Turn an audit.k8s.io/v1 Policy into an AuditSink and the AuditClasses it refers to, or a file with an AuditSink and its
classes into a Policy. The file may be a list, as kubectl prints it; if it has several sinks, --name selects one. The result
gives every request the same level. If a rule has no equivalent, the command fails and names it. What is left out without
changing a level is reported on standard error.`,
		Example: `  # A policy file of kube-apiserver as a sink; add its webhook before applying it
  proviso audit convert -f audit-policy.yaml --name security > sink.yaml

  # And back
  proviso audit convert -f sink.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.Run() },
	}
	cmd.Flags().StringVarP(&o.File, "filename", "f", "", "File to convert; - for standard input. Required.")
	cmd.Flags().StringVar(&o.Name, "name", o.Name, "Name of the sink to create from a policy, or of the one to convert if there are several.")
	return cmd
}

// Run converts and prints.
func (o *AuditConvertOptions) Run() error {
	if o.File == "" {
		return errors.New("name a file: -f FILE, or -f - for standard input")
	}
	var data []byte
	var err error
	if o.File == "-" {
		data, err = io.ReadAll(o.In)
	} else {
		data, err = os.ReadFile(o.File)
	}
	if err != nil {
		return err
	}
	var found auditObjects
	for i, document := range bytes.Split(data, []byte("\n---")) {
		if err := found.read(document, ""); err != nil {
			return fmt.Errorf("%s, document %d: %w", o.File, i+1, err)
		}
	}
	switch {
	case len(found.policies) == 1 && len(found.sinks)+len(found.classes) == 0:
		return o.fromPolicy(found.policies[0])
	case len(found.sinks) > 0 && len(found.policies) == 0:
		sink, err := found.sink(o.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", o.File, err)
		}
		return o.toPolicy(sink, found.classes)
	}
	return fmt.Errorf("%s: want one Policy, or one AuditSink with its AuditClasses", o.File)
}

func (o *AuditConvertOptions) toPolicy(sink *auditv1alpha1.AuditSink, classes []*auditv1alpha1.AuditClass) error {
	converted, err := auditrule.ToPolicy(&sink.Spec.Policy, classes)
	if err != nil {
		return err
	}
	for _, lost := range []struct {
		name string
		set  bool
	}{{"notAfter", sink.Spec.NotAfter != nil}, {"redact", sink.Spec.Redact != nil}, {"reveal", len(sink.Spec.Reveal) > 0}} {
		if lost.set {
			terminal.Fprintf(o.ErrOut, "left out: spec.%s: an audit policy has no equivalent\n", lost.name)
		}
	}
	converted.OmitManagedFields = sink.Spec.OmitManagedFields
	converted.APIVersion, converted.Kind = auditv1.SchemeGroupVersion.String(), "Policy"
	return o.documents(converted)
}

func (o *AuditConvertOptions) fromPolicy(policy *auditv1.Policy) error {
	converted, err := auditrule.FromPolicy(o.Name, policy)
	if err != nil {
		return err
	}
	for _, lost := range converted.Lost {
		terminal.Fprintf(o.ErrOut, "left out: %s\n", lost)
	}
	all := make([]any, 0, len(converted.Classes)+1)
	for _, class := range converted.Classes {
		class.APIVersion, class.Kind = auditv1alpha1.SchemeGroupVersion.String(), "AuditClass"
		all = append(all, class)
	}
	converted.Sink.APIVersion, converted.Sink.Kind = auditv1alpha1.SchemeGroupVersion.String(), "AuditSink"
	return o.documents(append(all, converted.Sink)...)
}

func (o *AuditConvertOptions) documents(all ...any) error {
	for i, object := range all {
		data, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			terminal.Fprintln(o.Out, "---")
		}
		if _, err := o.Out.Write(data); err != nil {
			return err
		}
	}
	return nil
}
