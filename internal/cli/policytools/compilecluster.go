package policytools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/hosts/offline/managed"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
)

// newCompileClusterCommands returns the commands that compare compiled policy with a cluster, or bring it there.
func newCompileClusterCommands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{newCompileApplyCommand(streams), newCompileVerifyCommand(streams), newCompileDriftCommand(streams)}
}

func newCompileApplyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, remove := newCompileOptions(streams), false
	cmd := &cobra.Command{
		Use:   "apply -f DIR",
		Short: "Compile policy and apply it: policies, verify, grants, and then what is left over away",
		Long: `Compile policy and apply it to a cluster. No grant ever exists without its condition: the command writes new policies, verifies them,
writes new grants, deletes old grants, and then deletes old policies. Objects without the label app.kubernetes.io/managed-by=proviso-compile are not touched.`,
		Example: `  # Compile and apply
  proviso compile apply -f policies/

  # Remove everything that was compiled: grants first
  proviso compile apply --remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := o.cluster()
			if err != nil {
				return err
			}
			done := func(step string) { terminal.Fprintln(o.Out, step) }
			if remove {
				if len(o.Files) > 0 {
					return errors.New("-f and --remove are mutually exclusive")
				}
				return cluster.Remove(cmd.Context(), done)
			}
			result, err := o.whole(cmd.Context(), "applied")
			if err != nil {
				return err
			}
			return cluster.Apply(cmd.Context(), result, done)
		},
	}
	o.addCompileFlags(cmd.Flags())
	cmd.Flags().BoolVar(&remove, "remove", false, "Remove all compiled objects instead.")
	return cmd
}

func newCompileVerifyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newCompileOptions(streams)
	cmd := &cobra.Command{
		Use:   "verify -f DIR",
		Short: "Ask a cluster whether it enforces the compiled policies",
		Long: `Ask a cluster whether it enforces the policies that the files compile to. Each policy refuses a canary, a dry run of a config map with
the policy's own name in the namespace default, which you need the right to create. The command succeeds when all canaries were
refused 20 times in a row, over new connections and for at least 10 seconds, and the objects, which you need the right to get, are as
they were compiled. This is evidence that all API servers of the cluster enforce the policies, not proof.`,
		Example: `  kubectl apply -f compiled/1-policies.yaml
  proviso compile verify -f policies/
  kubectl apply -f compiled/2-grants.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := o.whole(cmd.Context(), "verified")
			if err != nil {
				return err
			}
			cluster, err := o.cluster()
			if err != nil {
				return err
			}
			return cluster.Verify(cmd.Context(), result, func(step string) { terminal.Fprintln(o.Out, step) })
		},
	}
	o.addCompileFlags(cmd.Flags())
	return cmd
}

// driftReport is what `compile drift` found.
type driftReport struct {
	*compile.Drift
	// Breakers are the subjects that can switch the policies off.
	Breakers []string `json:"breakers,omitempty"`
}

func newCompileDriftCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, dump := newCompileOptions(streams), []string(nil)
	o.Output = "table"
	cmd := &cobra.Command{
		Use:   "drift -f DIR",
		Short: "Compare the compiled objects of a cluster with what policy compiles to",
		Long: `Compare the objects of a cluster with what the files compile to: objects that are missing, that were changed, or that are left over.
Subjects that may change or delete ValidatingAdmissionPolicies, and so switch the policies off, are listed, too.

Exit code 0 if nothing differs, 2 if something does, 3 if the question could not be answered.`,
		Example: `  # The cluster of the kubeconfig
  proviso compile drift -f policies/

  # Without access to the cluster
  kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings,roles,rolebindings -A -o yaml > cluster.yaml
  proviso compile drift -f policies/ --objects cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Output != "table" && o.Output != "json" {
				return fmt.Errorf("-o %s: want table or json", o.Output)
			}
			return o.drift(cmd.Context(), dump)
		},
	}
	o.addCompileFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&dump, "objects", nil, "Read the objects of the cluster from these files instead of the cluster.")
	cmd.Flags().StringVarP(&o.Output, "output", "o", o.Output, "Output: table or json.")
	return cmd
}

// cluster is the cluster of the kubeconfig.
func (o *CompileOptions) cluster() (*managed.Cluster, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return managed.NewCluster(config)
}

// whole returns a result without losses that were not accepted. Without one, nothing is done with the cluster.
func (o *CompileOptions) whole(ctx context.Context, done string) (*compile.Result, error) {
	if len(o.Files) == 0 {
		return nil, errors.New("name the files with the policy: -f DIR")
	}
	o.Output = "yaml"
	if err := o.Validate(); err != nil {
		return nil, err
	}
	result, err := o.compiled(ctx)
	if err != nil {
		return nil, err
	}
	if lost := result.Impossible(); len(lost) > 0 {
		return nil, errors.Join(printReport(o.ErrOut, lost), fmt.Errorf("nothing was %s: %s", done, tooMuch))
	}
	return result, nil
}

// drift compares and prints.
func (o *CompileOptions) drift(ctx context.Context, dump []string) error {
	format := o.Output
	result, err := o.whole(ctx, "compared")
	if err != nil {
		return err
	}
	policies, err := managed.Objects(result.Policies)
	if err != nil {
		return err
	}
	grants, err := managed.Objects(result.Grants)
	if err != nil {
		return err
	}
	there, err := o.there(ctx, dump)
	if err != nil {
		return err
	}
	report := driftReport{compile.Compare(append(policies, grants...), there), compile.Breakers(there)}
	if err := report.print(o.IOStreams, format); err != nil {
		return err
	}
	if report.Any() {
		return exit(codeChanges)
	}
	return nil
}

// there are the objects of the cluster, or of a dump.
func (o *CompileOptions) there(ctx context.Context, dump []string) (all []*unstructured.Unstructured, err error) {
	if len(dump) > 0 {
		documents, err := manifests.Read(dump, o.In)
		for _, d := range documents {
			all = append(all, d.Object)
		}
		return all, err
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	return cluster.Read(ctx)
}

func (r driftReport) print(streams genericiooptions.IOStreams, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	for _, list := range []struct {
		word string
		all  []string
	}{{"missing", r.Missing}, {"changed", r.Changed}, {"left over", r.Left}, {"can switch it off", r.Breakers}} {
		for _, one := range list.all {
			terminal.Fprintf(streams.Out, "%s: %s\n", list.word, one)
		}
	}
	if !r.Any() {
		terminal.Fprintln(streams.Out, "The cluster has what was compiled.")
	}
	return nil
}
