package policytools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/journal"
)

// takeBack is what rollback and undo have in common: they plan a former policy, and make it so if told.
type takeBack struct {
	Origin          origin
	Namespace       string
	Yes             bool
	Output          string
	MasterNamespace string

	genericiooptions.IOStreams
}

func (o *takeBack) addFlags(fs *pflag.FlagSet) {
	o.Origin.addServer(fs)
	fs.BoolVar(&o.Yes, "yes", false, "Make the change after showing the plan.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output of the plan: table, wide, json, yaml or markdown.")
	addMasterFlag(fs, &o.MasterNamespace)
}

func (o *takeBack) validate() error {
	if !slices.Contains([]string{"table", wide, "json", "yaml", "markdown"}, o.Output) {
		return fmt.Errorf("-o %s: want table, wide, json, yaml or markdown", o.Output)
	}
	return nil
}

// former makes a former policy of the one of now and the journal.
type former func(now []manifests.Document, history *journal.History) ([]manifests.Document, error)

// run shows the plan, and with --yes makes it so. It does with what the caller may read of one namespace (TR-19).
func (o *takeBack) run(ctx context.Context, was former, done string) error {
	config, err := o.Origin.config.ToRESTConfig()
	if err != nil {
		return err
	}
	history, err := policychange.ReadJournal(ctx, config, nil)
	if err != nil {
		return err
	}
	if o.Namespace != "" {
		o.Origin.within = []string{o.Namespace}
	}
	now, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	if history.Partial && o.Namespace == "" {
		return errors.New("you may not see all policy changes, which are needed to reconstruct an earlier policy; name a namespace with -n")
	}
	o.Origin.sayUnseen(o.ErrOut)
	if len(o.Origin.unseen) == 0 {
		if now, err = policychange.WithSinks(ctx, config, now); err != nil {
			return err
		}
	}
	now = policychange.Parts(now)
	then, err := was(now, history)
	if err != nil {
		return err
	}
	todo := policychange.Steps(now, then)
	if len(todo) == 0 {
		_, _ = terminal.Fprintln(o.ErrOut, done)
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
		_, _ = terminal.Fprintln(o.ErrOut, "Nothing was changed; use --yes to make the change.")
		return exit(codeChanges)
	}
	return policychange.Restore(ctx, config, todo, func(s policychange.Step) { _, _ = terminal.Fprintf(o.ErrOut, "%s: done\n", s) })
}
