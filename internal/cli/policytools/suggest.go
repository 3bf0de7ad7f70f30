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
	For             []string
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
		Short: "Suggest the least rights that explain what somebody was seen doing",
		Long: `Suggest the least rights that explain what somebody did, from an audit log: verbs, resources, namespaces and names, under the conditions under which
they are held today. What is printed can be applied.

Two things are proven before it is printed, by the engine of the server: every recorded request that the policy of --from or --kubeconfig allows is allowed with
the suggestion instead of the bindings that name the subject, and the suggestion grants nothing that the subject does not hold.
Rights that everybody has (system:authenticated) stay as they are, and so do bindings to roles that deny something.

Requests that were refused are not looked at. A log of level Metadata is enough. With level RequestResponse it is told which fields updates and patches changed:
where these are few, and a permission for them exists, the right to write them (granular:…) is suggested instead of the right to write the object.
With --kubeconfig or --live, objects of the server are read where so many were touched that their names are not listed: if a label or field
that all of them share sets them apart, it becomes a where. Conditions can be said in Policy only, so that they become roles of Policy in any case.

Exit code 0 with a suggestion, 1 if nothing that was seen is held, 3 if the question could not be answered.`,
		Example: `  # For every user and service account of the log
  proviso suggest --replay audit.log --from policies/

  # For one service account, as roles of Policy
  proviso suggest --replay audit.log.gz --from dump.yaml --for serviceaccount:ci/robot --format policy

  # By the policy that a server has now
  proviso suggest --replay audit.log --kubeconfig admin.kubeconfig --for dora

  # By what a server is asked in the next ten minutes
  proviso suggest --live 10m --for serviceaccount:ci/robot

  # What would be taken away?
  proviso suggest --replay audit.log --from policies/ --for dora --diff | grep '^#'

  # What would applying it add to what there is?
  proviso suggest --replay audit.log --from policies/ --for dora > least.yaml
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
	fs.DurationVar(&o.Live, "live", 0, "How long to look at the requests of a server, such as 10m, instead of a log.")
	fs.StringVar(&o.Replay, "replay", "", "The audit log, or what a sink was sent: JSON lines, also compressed with gzip; - is standard input.")
	fs.StringSliceVar(&o.From, "from", nil, "Files and directories that hold the policy that there is. Without it a server is asked.")
	o.addServer(fs)
	fs.StringSliceVar(&o.For, "for", nil, "Whom: a user, group:NAME or serviceaccount:NAMESPACE/NAME. Left out, every user of the log.")
	fs.StringVar(&o.Format, "format", o.Format, "What to write: rbac or policy.")
	fs.IntVar(&o.MaxNames, "max-names", o.MaxNames, "How many names of objects a rule lists; with more of them it is about all names, if that is held.")
	fs.BoolVar(&o.Diff, "diff", false, "Say in comments which rights are taken away.")
	fs.BoolVar(&o.Fields, "fields", o.Fields, "Suggest permissions for single fields, which need the feature FieldPermissions.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Validate checks the flags.
func (o *SuggestOptions) Validate() error {
	switch {
	case o.Live < 0:
		return fmt.Errorf("--live %s: want a time, such as 10m", o.Live)
	case o.Replay == "" && o.Live == 0:
		return errors.New("--replay: name the file with the recorded requests, or --live how long to look at a server")
	case o.Replay != "" && o.Live > 0:
		return errors.New("--replay and --live: the requests come from one of them")
	case o.Live > 0 && !o.live():
		return errors.New("--live and --from: the server whose requests are looked at has the policy")
	case o.Format != "rbac" && o.Format != "policy":
		return fmt.Errorf("--format %s: want rbac or policy", o.Format)
	case *o.config.Impersonate == "rbac" || *o.config.Impersonate == "policy":
		return fmt.Errorf("--as names the user that the server is asked as; what to write is --format %s", *o.config.Impersonate)
	case o.MaxNames < 1:
		return fmt.Errorf("--max-names %d: want at least 1", o.MaxNames)
	}
	for _, s := range o.For {
		if _, err := parseSubject(s); err != nil {
			return err
		}
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
	for _, text := range o.For {
		if s, err := parseSubject(text); err != nil || seen[s] == nil {
			return errors.Join(err, fmt.Errorf("--for %s: no request of theirs succeeded in %s; without --for there is a suggestion for each user that was seen", text, o.Replay))
		}
	}
	if len(subjects) == 0 {
		return fmt.Errorf("--replay %s: there is no request that succeeded", o.Replay)
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
		return false, fmt.Errorf("the suggestion would break %d kinds of requests, such as %s: this is a mistake of the program", len(result.Broken), result.Broken[0])
	}
	if !o.Diff {
		result.Lost = nil
	}
	return len(result.Parts) == 0, printSuggestion(o.Out, in, result, d)
}

// read collects what everybody did.
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
		terminal.Fprintf(o.ErrOut, "Looking at what %s is asked for %s.\n", config.Host, o.Live)
		log, o.Replay = stream, "what was seen"
	} else if o.Replay != "-" {
		file, err := os.Open(o.Replay)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	var wanted []ruleset.Subject
	for _, text := range o.For {
		s, err := parseSubject(text)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		wanted = append(wanted, s)
	}
	return observed.Read(ctx, log, host, wanted)
}
