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
		Short: "Plan, and with --yes make, the policy what it was at a revision or a time",
		Long: `Show what would change if the policy became again what it was right after a revision of proviso history, or at a time: first the objects that
would be written and deleted, then who would gain, who would lose and whose conditions would change. With --yes, it is done: with your own rights, object
by object, and only to objects that nobody changes meanwhile. A rollback is a change like any other: it is in the history, and can be rolled back.

With -n, only the policy of one namespace goes back, which is all that you need to be able to read; with names of roles, only these and their bindings.
A revision that the journal does not have is an error.

Exit code 0 if there is nothing to do or all was done, 2 if something would change, 3 if the question could not be answered.`,
		Example: `  # What would it change to go back to revision 1234?
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
	fs.StringVar(&o.To, "to", "", "The revision, or the time: how long ago (2h, 3d), a day, or a time as 2026-11-16T18:00:00Z.")
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "Only the policy of this namespace.")
	o.addFlags(fs)
	return cmd
}

func (o *RollbackOptions) complete(args []string) error {
	switch {
	case o.To == "" && len(args) != 1:
		return errors.New("say to which revision: proviso rollback 1234; or proviso rollback --to 2h [ROLE]... for a time and for single roles")
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
		what = fmt.Sprintf("What is selected (%s)", strings.Join(o.Roles, ", "))
	}
	return o.run(ctx, func(now []manifests.Document, history *journal.History) ([]manifests.Document, error) {
		revision, err := policychange.MomentOf(o.To, history, time.Now())
		if err != nil {
			return nil, err
		}
		return policychange.PartsAsOf(now, history.Entries, revision, only)
	}, fmt.Sprintf("%s is what it was at %s: there is nothing to do.", what, momentText(o.To)))
}

// momentText says a revision or a time.
func momentText(text string) string {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return "revision " + text
	}
	return text
}
