package policytools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/managed"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/platform/terminal"
)

// CompileOptions are the flags of `proviso compile`.
type CompileOptions struct {
	origin
	Files           []string
	Target          string
	Accept          []string
	OutDir          string
	Output          string
	MasterNamespace string

	genericiooptions.IOStreams
}

// targetVAP is what policy can be compiled for.
const targetVAP = "vap"

// NewCompileCommand returns `proviso compile`.
func NewCompileCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newCompileOptions(streams)
	cmd := &cobra.Command{
		Use:   "compile [-f DIR | FILE]...",
		Short: "Compile policy to RBAC and ValidatingAdmissionPolicies, for clusters on which you cannot add a flag",
		Long: `Turn Policies and their bindings into RBAC roles and bindings, ValidatingAdmissionPolicies and their bindings, and nothing else. A stock
API server enforces them: no webhook, no sidecar, no flag. The policy is read from files, or from a server with --kubeconfig.

Each rule gets a verdict: exact (decided as by Proviso), stronger (more is refused; the report says what), or impossible. If anything is
impossible, nothing is written, and each such rule is reported with the reason. --accept RULE gives up the impossible part of a rule.

The output has policies first and grants second, because a grant must not exist without its condition. Apply them in this order, with
'proviso compile verify' between the two, or let 'proviso compile apply' do it. Do not use kubectl apply --prune.

Exit code 0 if everything was compiled, 2 if something is impossible, 3 if the policy could not be read.`,
		Example: `  # What can a managed cluster have of our policy?
  proviso compile -f policies/ -o report

  # Two files, to be applied one after the other
  proviso compile -f policies/ --out compiled/

  # Do without what cannot be had of one rule
  proviso compile -f policies/ --accept team-a/dev/2 --out compiled/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunCompile(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.addCompileFlags(fs)
	fs.StringVar(&o.OutDir, "out", "", "Write "+managed.PoliciesFile+" and "+managed.GrantsFile+" to this directory instead of standard output.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: yaml, report or json (the report).")
	cmd.AddCommand(newCompileClusterCommands(streams)...)
	return cmd
}

func newCompileOptions(streams genericiooptions.IOStreams) *CompileOptions {
	return &CompileOptions{IOStreams: streams, Target: targetVAP, Output: "yaml", MasterNamespace: "master"}
}

// addCompileFlags adds the flags that say what is compiled.
func (o *CompileOptions) addCompileFlags(fs *pflag.FlagSet) {
	fs.StringSliceVarP(&o.Files, "filename", "f", nil, "Files or directories with the policy to compile, and with the custom resource definitions that it names.")
	fs.StringVar(&o.Target, "target", o.Target, "What to compile for: vap (RBAC and ValidatingAdmissionPolicies).")
	fs.StringSliceVar(&o.Accept, "accept", nil, "Rules (NAMESPACE/ROLE/INDEX), roles (NAMESPACE/ROLE) or objects (KIND/NAME) of which to do without what cannot be had.")
	addMasterFlag(fs, &o.MasterNamespace)
	o.addServer(fs)
}

// Validate checks the flags.
func (o *CompileOptions) Validate() error {
	switch {
	case o.Target != targetVAP:
		return fmt.Errorf("--target %s: want %s", o.Target, targetVAP)
	case !slices.Contains([]string{"yaml", "report", "json"}, o.Output):
		return fmt.Errorf("-o %s: want yaml, report or json", o.Output)
	case o.OutDir != "" && o.Output != "yaml":
		return errors.New("--out and -o are mutually exclusive")
	}
	return nil
}

// RunCompile compiles and writes.
func (o *CompileOptions) RunCompile(ctx context.Context) error {
	result, err := o.compiled(ctx)
	if err != nil {
		return err
	}
	switch o.Output {
	case "report":
		if err := printReport(o.Out, result.Assessments); err != nil {
			return err
		}
		return impossible(result)
	case "json":
		encoder := json.NewEncoder(o.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		report := struct {
			APIVersion string                `json:"apiVersion"`
			Kind       string                `json:"kind"`
			Rules      []*compile.Assessment `json:"rules"`
		}{offline.ToolsVersion, "CompileReport", result.Assessments}
		if err := encoder.Encode(report); err != nil {
			return err
		}
		return impossible(result)
	}
	if lost := result.Impossible(); len(lost) > 0 {
		if err := printReport(o.ErrOut, lost); err != nil {
			return err
		}
		terminal.Fprintf(o.ErrOut, "Nothing was written: %s.\n", terminal.Lines(tooMuch))
		return exit(codeChanges)
	}
	return o.write(result)
}

// compiled compiles what the flags name. Given files, only these are read.
func (o *CompileOptions) compiled(ctx context.Context) (*compile.Result, error) {
	var documents []manifests.Document
	var err error
	if len(o.Files) > 0 {
		documents, err = manifests.Read(o.Files, o.In)
	} else {
		documents, err = o.read(ctx)
	}
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s: no objects found", cmp.Or(strings.Join(o.Files, ", "), "the server's policy"))
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: o.MasterNamespace})
	if err != nil {
		return nil, err
	}
	return managed.Compile(host, o.Accept)
}

func impossible(result *compile.Result) error {
	if len(result.Impossible()) > 0 {
		return exit(codeChanges)
	}
	return nil
}

// tooMuch is why a policy is not compiled, and what to do.
const tooMuch = "a managed cluster cannot have all of this policy; change the rules, or do without with --accept RULE"

// printReport writes the verdicts, one line each.
func printReport(out io.Writer, findings []*compile.Assessment) error {
	for _, f := range findings {
		verdict := f.Verdict.String()
		if f.Accepted {
			verdict += " (accepted)"
		}
		if _, err := terminal.Fprintf(out, "%s: %s%s\n", f.Rule, verdict, after(": ", f.Text())); err != nil {
			return err
		}
	}
	return nil
}

// write writes to standard output, or two files.
func (o *CompileOptions) write(result *compile.Result) error {
	var policies, grants bytes.Buffer
	policies.Write(managed.Header(result))
	if err := errors.Join(managed.Write(&policies, result.Policies), managed.Write(&grants, result.Grants)); err != nil {
		return err
	}
	if o.OutDir == "" {
		_, err := o.Out.Write(append(policies.Bytes(), grants.Bytes()...))
		return err
	}
	if err := os.MkdirAll(o.OutDir, 0o750); err != nil {
		return err
	}
	for name, content := range map[string][]byte{managed.PoliciesFile: policies.Bytes(), managed.GrantsFile: grants.Bytes()} {
		if err := atomicfile.Replace(filepath.Join(o.OutDir, name), content, atomicfile.Options{}); err != nil {
			return err
		}
	}
	terminal.Fprintf(o.Out, "Wrote %s (%d objects) and %s (%d objects) to %s.\n", managed.PoliciesFile, len(result.Policies), managed.GrantsFile, len(result.Grants), o.OutDir)
	return nil
}
