package policytools

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/journal"
)

// UndoOptions are the flags of `proviso undo`.
type UndoOptions struct {
	takeBack
}

// NewUndoCommand returns `proviso undo`.
func NewUndoCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &UndoOptions{takeBack: takeBack{IOStreams: streams, MasterNamespace: "master", Output: "table"}}
	cmd := &cobra.Command{
		Use:   "undo CHANGE [-n NAMESPACE] [--yes]",
		Short: "Show how to undo one policy change; with --yes, undo it",
		Long: `Show what would change if one change of proviso history were undone and later changes were kept. Changes that depend on it are undone, too,
and listed: later changes of the same roles, bindings and objects, and bindings of a role that would no longer exist. With --yes, undo
it, with your own rights. To redo a change, undo the undo. A revocation of tokens cannot be undone.

Exit code 0 if there is nothing to do or everything was done, 2 if something would change, 3 if the question could not be answered.`,
		Example: `  # Who changed what?
  proviso history --since 2h

  # What would undoing change 1234 change?
  proviso undo 1234

  # Do it
  proviso undo 1234 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			revision, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a change: want the revision of one, from proviso history", args[0])
			}
			return o.Run(cmd.Context(), revision)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "Namespace of the change, if you may read only that.")
	o.addFlags(fs)
	return cmd
}

// Run shows the plan, and makes it so.
func (o *UndoOptions) Run(ctx context.Context, revision uint64) error {
	return o.run(ctx, func(now []manifests.Document, history *journal.History) ([]manifests.Document, error) {
		then, with, err := policychange.Undo(now, history.Entries, revision)
		if err != nil {
			return nil, err
		}
		for _, e := range with {
			_, _ = terminal.Fprintf(o.ErrOut, "This also undoes change %d (%s by %s) of the same object.\n", e.Revision, e.Time.Format(time.RFC3339), e.User)
		}
		return then, nil
	}, fmt.Sprintf("Change %d has no effect any more: there is nothing to do.", revision))
}
