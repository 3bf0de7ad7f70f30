package policytools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/state/journal"
)

// RollbackOptions are the flags of `proviso rollback`.
type RollbackOptions struct {
	takeBack
	// To is a revision or a time, and Roles what is taken back; all of it without any.
	To    string
	Roles []string
}

// NewRollbackCommand returns `proviso rollback`.
func NewRollbackCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &RollbackOptions{takeBack: takeBack{IOStreams: streams, MasterNamespace: "master", Output: "table"}}
	cmd := &cobra.Command{
		Use:   "rollback (REVISION | --to TIME|REVISION [ROLE]...) [-n NAMESPACE] [--yes]",
		Short: "Show how to restore the policy of a revision or a time; with --yes, restore it",
		Long: `Show what would change if the policy were restored to a revision of proviso history, or to a time: the objects to write and delete, then
who gains, who loses and whose conditions change. With --yes, restore it, object by object, with your own rights. An object that changes
in the meantime is not written. A rollback is a change like any other: it is recorded in the history and can be rolled back. Token
revocations are not policy, and stay as they are.

With -n, only the policy of one namespace is restored, and you need to read only that. With names of roles, only these and their bindings
are restored. If the journal does not have the revision, the command fails.

Exit code 0 if there is nothing to do or everything was done, 2 if something would change, 3 if the question could not be answered.`,
		Example: `  # What would restoring revision 1234 change?
  proviso rollback 1234

  # Do it
  proviso rollback 1234 --yes

  # The policy of one namespace as it was two hours ago
  proviso rollback --to 2h -n hammer

  # One role and its bindings as they were yesterday evening
  proviso rollback --to 2026-11-16T18:00:00Z -n hammer dev`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.To, "to", "", "Revision or time to restore: an age (2h, 3d), a day, or a time such as 2026-11-16T18:00:00Z.")
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "Only the policy of this namespace.")
	o.addFlags(fs)
	return cmd
}

func (o *RollbackOptions) complete(args []string) error {
	switch {
	case o.To == "" && len(args) != 1:
		return errors.New("name the revision: proviso rollback 1234, or for a time or single roles proviso rollback --to 2h [ROLE]")
	case o.To == "":
		o.To = args[0]
	default:
		o.Roles = args
	}
	return o.validate()
}

// Run shows the plan, and makes it so.
func (o *RollbackOptions) Run(ctx context.Context) error {
	only := policychange.Selection{Namespace: o.Namespace, Roles: o.Roles}
	what := "The policy"
	if len(o.Roles) > 0 {
		what = fmt.Sprintf("The selected policy (%s)", strings.Join(o.Roles, ", "))
	}
	return o.run(ctx, func(now []manifests.Document, history *journal.History) ([]manifests.Document, error) {
		revision, err := policychange.MomentOf(o.To, history, time.Now())
		if err != nil {
			return nil, err
		}
		return policychange.PartsAsOf(now, history.Entries, revision, only)
	}, fmt.Sprintf("%s has not changed since %s: there is nothing to do.", what, momentText(o.To)))
}

// momentText says a revision or a time.
func momentText(text string) string {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return "revision " + text
	}
	return text
}
