package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/snapshot"
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
	fs.StringVar(&o.MasterNamespace, "policy-master-namespace", o.MasterNamespace, "The namespace whose policy holds everywhere.")
	return cmd
}

// Run shows the plan, and makes it so.
func (o *RollbackOptions) Run(ctx context.Context, name string) error {
	config, err := o.Origin.config.ToRESTConfig()
	if err != nil {
		return err
	}
	history, err := readJournal(ctx, config)
	if err != nil {
		return err
	}
	revision, err := revisionOf(name, history)
	if err != nil {
		return err
	}
	now, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	then, err := asOf(now, history.Entries, revision)
	if err != nil {
		return err
	}
	put, remove := difference(now, then)
	if len(put)+len(remove) == 0 {
		_, _ = fmt.Fprintf(o.ErrOut, "The policy is what it was at revision %s: there is nothing to do.\n", name)
		return nil
	}
	for _, d := range put {
		_, _ = fmt.Fprintf(o.ErrOut, "write  %s\n", d.key())
	}
	for _, d := range remove {
		_, _ = fmt.Fprintf(o.ErrOut, "delete %s\n", d.key())
	}
	result, err := compared(ctx, now, then, o.MasterNamespace)
	if err != nil {
		return err
	}
	if err := result.print(o.Out, o.Output); err != nil {
		return err
	}
	if !o.Yes {
		_, _ = fmt.Fprintln(o.ErrOut, "Nothing was changed; --yes does it.")
		return exit(codeChanges)
	}
	return restore(ctx, config, now, put, remove, func(format string, args ...any) { _, _ = fmt.Fprintf(o.ErrOut, format, args...) })
}

// restore writes and deletes. Roles come before what binds them, and bindings go before what they bind; nothing is
// overwritten that has changed since it was looked at.
func restore(ctx context.Context, config *rest.Config, now, put, remove []document, say func(string, ...any)) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	there := map[string]document{}
	for _, d := range now {
		there[d.key()] = d
	}
	binds := func(d document) bool { return strings.Contains(d.object.GetKind(), "Binding") }
	first := func(a, b document) int {
		switch {
		case binds(a) == binds(b):
			return 0
		case binds(b):
			return -1
		}
		return 1
	}
	slices.SortStableFunc(put, first)
	slices.SortStableFunc(remove, func(a, b document) int { return first(b, a) })
	resource := func(d document) (dynamic.ResourceInterface, error) {
		gvk := d.object.GroupVersionKind()
		for _, kind := range snapshot.Kinds() {
			if kind.GroupVersion() == gvk.GroupVersion() && kindOf(kind) == gvk.Kind {
				return client.Resource(kind.GroupVersionResource).Namespace(d.object.GetNamespace()), nil
			}
		}
		return nil, fmt.Errorf("%s is no policy", d.key())
	}
	for _, d := range put {
		r, err := resource(d)
		if err != nil {
			return err
		}
		object := d.object.DeepCopy()
		object.SetUID("")
		object.SetCreationTimestamp(metav1.Time{})
		have, exists := there[d.key()]
		if exists {
			object.SetResourceVersion(have.object.GetResourceVersion())
			_, err = r.Update(ctx, object, metav1.UpdateOptions{})
		} else {
			_, err = r.Create(ctx, object, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("write %s: %w; what was done before stays, and can be continued with the same command", d.key(), err)
		}
		say("%s written\n", d.key())
	}
	for _, d := range remove {
		r, err := resource(d)
		if err != nil {
			return err
		}
		version := d.object.GetResourceVersion()
		err = r.Delete(ctx, d.object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w; what was done before stays, and can be continued with the same command", d.key(), err)
		}
		say("%s deleted\n", d.key())
	}
	return nil
}

// kindOf is the kind that a resource's objects have.
func kindOf(kind snapshot.Kind) string {
	name := fmt.Sprintf("%T", kind.Example)
	return name[strings.LastIndex(name, ".")+1:]
}
