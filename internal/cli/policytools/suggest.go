package policytools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/cli/subject"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/observed"
	"proviso.dev/proviso/internal/platform/terminal"
)

// SuggestOptions are the flags of `proviso suggest`.
type SuggestOptions struct {
	origin
	Replay          string
	Live            time.Duration
	who             subject.Flags
	Format          string
	MaxNames        int
	Fields          bool
	Diff            bool
	MasterNamespace string
	// objects reads what a server has, for a where; nil if no server is asked.
	objects reader

	genericiooptions.IOStreams
}

// NewSuggestCommand returns `proviso suggest`.
func NewSuggestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newSuggestCommand(streams, nil)
}

func newSuggestCommand(streams genericiooptions.IOStreams, objects reader) *cobra.Command {
	o := &SuggestOptions{IOStreams: streams, MasterNamespace: "master", Format: "rbac", MaxNames: 20, Fields: true, objects: objects}
	cmd := &cobra.Command{
		Use:   "suggest (--replay FILE | --live TIME) [--from DIR]",
		Short: "Suggest the least rights that cover the requests a subject made",
		Long: `Suggest the least rights that cover the requests of a subject in an audit log: verbs, resources, namespaces and names, with the
conditions of the rights the subject has today. You can apply the output.

The engine of the server proves two things before anything is printed. With the suggestion in place of the bindings that name the
subject, every recorded request is still allowed that the policy of --from or --kubeconfig allows. And the suggestion grants nothing that
the subject does not have. Rights of all users (system:authenticated) and bindings to roles that deny something are kept.

Refused requests are ignored. A log of level Metadata is enough. A log of level RequestResponse also shows which fields updates and patches
changed: if they are few, and a field permission covers them, it (granular:…) is suggested instead of the right to write the object.
If a rule would list too many names, --kubeconfig and --live read the objects from the server: a label or field that distinguishes them
becomes a where. Only Policy has conditions, so such rules are always written as roles of Policy.

Exit code 0 with a suggestion, 1 if the subject has no right to anything in the log, 3 if the question could not be answered.`,
		Example: `  # For every user and service account of the log
  proviso suggest --replay audit.log --from policies/

  # For one service account, as roles of Policy
  proviso suggest --replay audit.log.gz --from dump.yaml --serviceaccount ci:robot --format policy

  # With the current policy of a server
  proviso suggest --replay audit.log --kubeconfig admin.kubeconfig --user dora

  # From the requests of the next ten minutes
  proviso suggest --live 10m --serviceaccount ci:robot

  # Which rights would be removed?
  proviso suggest --replay audit.log --from policies/ --user dora --diff | grep '^#'

  # What would applying it add to the current policy?
  proviso suggest --replay audit.log --from policies/ --user dora > least.yaml
  proviso plan --from policies/ -f least.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunSuggest(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.Live, "live", 0, "Watch the requests of a server for this long, such as 10m, instead of reading a log.")
	fs.StringVar(&o.Replay, "replay", "", "Audit log as JSON lines, plain or gzip; - is standard input.")
	fs.StringSliceVar(&o.From, "from", nil, "Read the current policy from these files or directories instead of the cluster.")
	o.addServer(fs)
	o.who.Add(fs, "Suggest rights for this subject instead of every user in the log.")
	o.who.AddFormer(fs, "for")
	fs.StringVar(&o.Format, "format", o.Format, "Format of the suggestion: rbac or policy.")
	fs.IntVar(&o.MaxNames, "max-names", o.MaxNames, "List at most this many object names in a rule. With more, the rule covers all names, if the subject has that right.")
	fs.BoolVar(&o.Diff, "diff", false, "Show in comments which rights are removed.")
	fs.BoolVar(&o.Fields, "fields", o.Fields, "Suggest field permissions, which need the feature gate FieldPermissions.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Validate checks the flags.
func (o *SuggestOptions) Validate() error {
	switch {
	case o.Live < 0:
		return fmt.Errorf("--live %s: want a time, such as 10m", o.Live)
	case o.Replay == "" && o.Live == 0:
		return errors.New("name an audit log with --replay, or watch a server with --live")
	case o.Replay != "" && o.Live > 0:
		return errors.New("--replay and --live are mutually exclusive")
	case o.Live > 0 && !o.live():
		return errors.New("--live and --from are mutually exclusive: --live uses the policy of the server")
	case o.Format != "rbac" && o.Format != "policy":
		return fmt.Errorf("--format %s: want rbac or policy", o.Format)
	case *o.config.Impersonate == "rbac" || *o.config.Impersonate == "policy":
		return fmt.Errorf("--as names a user to impersonate; for the format use --format %s", *o.config.Impersonate)
	case o.MaxNames < 1:
		return fmt.Errorf("--max-names %d: want at least 1", o.MaxNames)
	}
	if _, err := o.who.All(); err != nil {
		return err
	}
	return o.validate()
}

// RunSuggest reads, proves and prints.
func (o *SuggestOptions) RunSuggest(ctx context.Context) error {
	documents, err := o.origin.read(ctx)
	if err != nil {
		return err
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: o.MasterNamespace})
	if err != nil {
		return err
	}
	seen, tally, err := o.read(ctx, host)
	if err != nil {
		return err
	}
	for _, p := range tally.Problems {
		terminal.Fprintf(o.ErrOut, "%s: %s\n", o.Replay, p)
	}
	subjects := slices.SortedFunc(maps.Keys(seen), ruleset.Subject.Compare)
	wanted, err := o.who.All()
	if err != nil {
		return err
	}
	for _, s := range wanted {
		if seen[s] == nil {
			return fmt.Errorf("no request of %s succeeded in %s; without a subject, there is a suggestion for each user", s, o.Replay)
		}
	}
	if len(subjects) == 0 {
		return fmt.Errorf("--replay %s: no request succeeded", o.Replay)
	}
	in, err := observed.Input(ctx, host)
	if err != nil {
		return err
	}
	in.Policy, in.MaxNames = o.Format == "policy", o.MaxNames
	if o.objects == nil && o.live() {
		if o.objects, err = o.reader(); err != nil {
			return err
		}
	}
	nothing := true
	for _, s := range subjects {
		empty, err := o.one(ctx, in, s, seen[s])
		if err != nil {
			return fmt.Errorf("%s: %w", offline.SubjectOf(s), err)
		}
		nothing = nothing && empty
	}
	if nothing {
		return exit(codeNo)
	}
	return nil
}

// one makes the suggestion for one subject.
func (o *SuggestOptions) one(ctx context.Context, in suggest.Input, s ruleset.Subject, d *observed.Doing) (empty bool, err error) {
	in = d.Complete(in, s, o.Fields)
	if in.Live, err = o.there(ctx, in); err != nil {
		return false, err
	}
	result, err := suggest.Make(in)
	if err != nil {
		return false, err
	}
	if len(result.Broken) > 0 {
		return false, fmt.Errorf("the suggestion would break %d kinds of requests, such as %s: this is a bug in proviso; please report it", len(result.Broken), result.Broken[0])
	}
	if !o.Diff {
		result.Lost = nil
	}
	return result.Allowed == 0, printSuggestion(o.Out, in, result, d)
}

// read collects the actions of all subjects.
func (o *SuggestOptions) read(ctx context.Context, host *offline.Host) (map[ruleset.Subject]*observed.Doing, auditlog.Tally, error) {
	log := o.In
	if o.Live > 0 {
		config, err := o.config.ToRESTConfig()
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		stream, err := observed.Live(ctx, config, o.Live)
		if err != nil {
			return nil, auditlog.Tally{}, fmt.Errorf("--live: %w", err)
		}
		defer func() { _ = stream.Close() }()
		terminal.Fprintf(o.ErrOut, "Watching the requests to %s for %s.\n", config.Host, o.Live)
		log, o.Replay = stream, "the observed requests"
	} else if o.Replay != "-" {
		file, err := os.Open(o.Replay)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	wanted, err := o.who.All()
	if err != nil {
		return nil, auditlog.Tally{}, err
	}
	return observed.Read(ctx, log, host, wanted)
}
