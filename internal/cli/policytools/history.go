package policytools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/journal"
)

// HistoryOptions are the flags of `proviso history`.
type HistoryOptions struct {
	Origin          origin
	Namespace, User string
	Since           string
	Limit           int
	Diff            string
	Output          string
	MasterNamespace string

	genericiooptions.IOStreams
}

// NewHistoryCommand returns `proviso history`.
func NewHistoryCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &HistoryOptions{IOStreams: streams, MasterNamespace: "master", Output: "table", Limit: 50}
	cmd := &cobra.Command{
		Use:   "history [--diff REVISION..REVISION]",
		Short: "Show who changed which policy when, and what that changed",
		Long: `Show who changed which policy when. The server keeps the last changes (--policy-history-entries, by default 1,000) of Policy, RBAC, field
permissions, protected attributes and audit sinks, with the object before and after. You see changes of objects that you may get.

With --diff, compare two revisions as proviso plan does: who gained, who lost, and whose conditions changed. A revision of the list
stands for the policy right after that change; now is the current policy.

Exit code of --diff: 0 if nothing differs, 2 if something differs or may differ, 3 if the question could not be answered.`,
		Example: `  # The last changes
  proviso history

  # What did mona change in the namespace hammer?
  proviso history -n hammer --user mona

  # What has happened in the last two hours?
  proviso history --since 2h

  # What has changed since revision 1234?
  proviso history --diff 1234..now`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", wide, "json", "yaml", "markdown"}, o.Output) || o.Output == "markdown" && o.Diff == "" {
				return fmt.Errorf("-o %s: want table, wide, json or yaml, and with --diff markdown", o.Output)
			}
			if o.Limit < 0 {
				return fmt.Errorf("--limit %d: want the number of changes, or 0 for all", o.Limit)
			}
			if o.Since != "" {
				if _, err := policychange.TimeOf(o.Since, time.Now()); err != nil {
					return fmt.Errorf("--since %s: %w", o.Since, err)
				}
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.Origin.addServer(fs)
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "Only changes in this namespace.")
	fs.StringVar(&o.User, "user", "", "Only changes of this user.")
	fs.StringVar(&o.Since, "since", "", "Only changes since this time: an age (2h, 3d), a day, or a time such as 2026-11-16T18:00:00Z.")
	fs.IntVar(&o.Limit, "limit", o.Limit, "How many of the latest changes to show; 0 for all.")
	fs.StringVar(&o.Diff, "diff", "", "Compare two revisions, as 1234..1240 or 1234..now.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, wide, json or yaml; with --diff also markdown.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Run answers and prints.
func (o *HistoryOptions) Run(ctx context.Context) error {
	config, err := o.Origin.config.ToRESTConfig()
	if err != nil {
		return err
	}
	query := map[string]string{}
	if o.Diff == "" {
		query = map[string]string{"namespace": o.Namespace, "user": o.User, "limit": strconv.Itoa(o.Limit)}
		if o.Since != "" {
			query["limit"] = "0"
		}
	}
	history, err := policychange.ReadJournal(ctx, config, query)
	if err != nil {
		return err
	}
	if o.Diff != "" {
		return o.diff(ctx, history)
	}
	if err := o.recent(history); err != nil {
		return err
	}
	return printHistory(o.Out, o.Output, history)
}

// recent leaves the changes since a time.
func (o *HistoryOptions) recent(history *journal.History) error {
	if o.Since == "" {
		return nil
	}
	since, err := policychange.TimeOf(o.Since, time.Now())
	if err != nil {
		return err
	}
	history.Entries = slices.DeleteFunc(history.Entries, func(e journal.Entry) bool { return e.Time.Before(since) })
	if surplus := len(history.Entries) - o.Limit; o.Limit > 0 && surplus > 0 {
		history.Entries = history.Entries[surplus:]
	}
	return nil
}

// diff compares two states of the policy.
func (o *HistoryOptions) diff(ctx context.Context, history *journal.History) error {
	left, right, two := strings.Cut(o.Diff, "..")
	if !two {
		return fmt.Errorf("--diff %s: want two revisions, as 1234..1240 or 1234..now", o.Diff)
	}
	if history.Partial {
		return errors.New("you may not see all policy changes, which are needed to reconstruct an earlier policy; for one namespace, use proviso rollback --to REVISION -n NAMESPACE")
	}
	now, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	var states [2][]manifests.Document
	for i, name := range []string{left, right} {
		revision, err := policychange.RevisionOf(name, history)
		if err != nil {
			return err
		}
		if states[i], err = policychange.AsOf(now, history.Entries, revision); err != nil {
			return err
		}
	}
	result, err := policychange.Compare(ctx, states[0], states[1], o.MasterNamespace)
	if err != nil {
		return err
	}
	if err := printPlan(o.Out, o.Output, result); err != nil {
		return err
	}
	return codeOf(result)
}

func printHistory(out io.Writer, format string, history *journal.History) error {
	if format != "table" && format != wide {
		data, err := json.MarshalIndent(history, "", "  ")
		text := terminal.Lines(data) + "\n"
		if err == nil && format == "yaml" {
			if data, err = yaml.JSONToYAML(data); err == nil {
				text, err = terminal.YAML(data)
			}
		}
		if err != nil {
			return err
		}
		_, err = terminal.Fprint(out, text)
		return err
	}
	if len(history.Entries) == 0 {
		_, _ = terminal.Fprintln(out, "No changes of policy are recorded.")
	} else {
		fit := fitted(out, format, nil)
		table := tabwriter.NewWriter(fit, 0, 8, 3, ' ', 0)
		_, _ = terminal.Fprintf(table, "REVISION\tTIME\tUSER\tVERB\tOBJECT\tWHAT\n")
		for _, e := range history.Entries {
			revision, name := strconv.FormatUint(e.Revision, 10), e.Name
			if e.Revision == 0 {
				revision = "unknown"
			}
			if e.Namespace != "" {
				name = e.Namespace + "/" + e.Name
			}
			what := policychange.Inside(&e)
			if e.TooLarge {
				what = "(too large to be kept)"
			}
			_, _ = terminal.Fprintf(table, "%s\t%s\t%s\t%s\t%s %s\t%s\n", revision, e.Time.Format(time.RFC3339), e.User, e.Verb,
				schema.GroupResource{Group: e.Group, Resource: e.Resource}, name, what)
		}
		if err := errors.Join(table.Flush(), fit.Close()); err != nil {
			return err
		}
	}
	if history.Partial {
		_, _ = terminal.Fprintf(out, "\nOnly changes of policy that you may read are shown.\n")
	}
	if history.Hidden > 0 {
		_, _ = terminal.Fprintf(out, "\n%d changes are hidden because you may not get their objects.\n", history.Hidden)
	}
	if history.Unreadable > 0 {
		_, _ = terminal.Fprintf(out, "\nThis server cannot read %d entries.\n", history.Unreadable)
	}
	return nil
}
