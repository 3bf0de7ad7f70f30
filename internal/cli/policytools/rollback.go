package policytools

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/platform/terminal"
)

// RollbackOptions are the flags of `proviso rollback`.
type RollbackOptions struct {
	Origin          origin
	Yes             bool
	Output          string
	MasterNamespace string

	genericiooptions.IOStreams
}

// NewRollbackCommand returns `proviso rollback`.
func NewRollbackCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &RollbackOptions{IOStreams: streams, MasterNamespace: "master", Output: "table"}
	cmd := &cobra.Command{
		Use:   "rollback REVISION [--yes]",
		Short: "Plan, and with --yes make, the policy what it was at a revision",
		Long: `Show what would change if the policy became again what it was right after a revision of proviso history: first the objects that would be written and
deleted, then who would gain, who would lose and whose conditions would change. With --yes, it is done: with your own rights, object by object, and
only to objects that nobody changes meanwhile. A rollback is a change like any other: it is in the history, and can be rolled back.

Exit code 0 if there is nothing to do or all was done, 2 if something would change, 3 if the question could not be answered.`,
		Example: `  # What would it change to go back to revision 1234?
  proviso rollback 1234

  # Do it
  proviso rollback 1234 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"table", "json", "yaml", "markdown"}, o.Output) {
				return fmt.Errorf("-o %s: want table, json, yaml or markdown", o.Output)
			}
			return o.Run(cmd.Context(), args[0])
		},
	}
	fs := cmd.Flags()
	o.Origin.addServer(fs)
	fs.BoolVar(&o.Yes, "yes", false, "Do it, after the plan is shown.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output of the plan: table, json, yaml or markdown.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Run shows the plan, and makes it so.
func (o *RollbackOptions) Run(ctx context.Context, name string) error {
	config, err := o.Origin.config.ToRESTConfig()
	if err != nil {
		return err
	}
	history, err := policychange.ReadJournal(ctx, config, nil)
	if err != nil {
		return err
	}
	revision, err := policychange.RevisionOf(name, history)
	if err != nil {
		return err
	}
	now, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	if now, err = policychange.WithSinks(ctx, config, now); err != nil {
		return err
	}
	then, err := policychange.AsOf(now, history.Entries, revision)
	if err != nil {
		return err
	}
	todo := policychange.Steps(now, then)
	if len(todo) == 0 {
		_, _ = terminal.Fprintf(o.ErrOut, "The policy is what it was at revision %s: there is nothing to do.\n", name)
		return nil
	}
	for _, s := range todo {
		_, _ = terminal.Fprintf(o.ErrOut, "%s\n", s)
	}
	result, err := policychange.Compare(ctx, now, then, o.MasterNamespace)
	if err != nil {
		return err
	}
	if err := printPlan(o.Out, o.Output, result); err != nil {
		return err
	}
	if !o.Yes {
		_, _ = terminal.Fprintln(o.ErrOut, "Nothing was changed; --yes does it.")
		return exit(codeChanges)
	}
	return policychange.Restore(ctx, config, todo, func(s policychange.Step) { _, _ = terminal.Fprintf(o.ErrOut, "%s: done\n", s) })
}
