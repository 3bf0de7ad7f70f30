package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	todo := steps(now, put, remove)
	for _, s := range todo {
		_, _ = fmt.Fprintf(o.ErrOut, "%s %s\n", s.verb, document{object: s.object}.key())
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
	return restore(ctx, config, todo, func(format string, args ...any) { _, _ = fmt.Fprintf(o.ErrOut, format, args...) })
}

// step is one write or deletion.
type step struct {
	verb   string
	object *unstructured.Unstructured
	// rank orders steps: containers, roles, bindings are written, then bindings, roles, containers deleted.
	rank int
}

// steps are what is written and deleted. Roles and role bindings of Policy are written one by one: their containers are
// made empty, and changed through them only.
func steps(now, put, remove []document) (all []step) {
	there := map[string]*unstructured.Unstructured{}
	for _, d := range now {
		there[d.key()] = d.object
	}
	for _, d := range put {
		have, verb := there[d.key()], "create"
		if have != nil {
			verb = "update"
		}
		container, holds := containers[d.object.GroupVersionKind().GroupKind().String()]
		if !holds {
			all = append(all, step{verb, ready(d.object, have), rankOf(d.object)})
			continue
		}
		if have == nil {
			empty := ready(d.object, nil)
			delete(empty.Object, container.field)
			all = append(all, step{"create", empty, 0})
		}
		all = append(all, entries(d.object, have, container.field, container.kind)...)
	}
	for _, d := range remove {
		if container, holds := containers[d.object.GroupVersionKind().GroupKind().String()]; holds {
			all = append(all, entries(nil, d.object, container.field, container.kind)...)
			all = append(all, step{"delete", d.object, 6})
			continue
		}
		all = append(all, step{"delete", d.object, 6 - rankOf(d.object)})
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// entries are the steps that make what a container holds into what another one does; either may be missing.
func entries(want, have *unstructured.Unstructured, field, kind string) (all []step) {
	inside := func(c *unstructured.Unstructured) map[string]any {
		if c == nil {
			return nil
		}
		m, _, _ := unstructured.NestedMap(c.Object, field)
		return m
	}
	namespace := ""
	for _, c := range []*unstructured.Unstructured{want, have} {
		if c != nil {
			namespace = c.GetNamespace()
		}
	}
	view := func(name string, content any) *unstructured.Unstructured {
		fields, _ := content.(map[string]any)
		object := (&unstructured.Unstructured{Object: fields}).DeepCopy()
		if object.Object == nil {
			object.Object = map[string]any{}
		}
		object.SetAPIVersion("authorization.proviso.dev/v1alpha1")
		object.SetKind(strings.TrimSuffix(kind, ".authorization.proviso.dev"))
		object.SetNamespace(namespace)
		object.SetName(name)
		return object
	}
	wanted, there := inside(want), inside(have)
	for name, content := range wanted {
		old, exists := there[name]
		object := view(name, content)
		switch {
		case !exists:
			all = append(all, step{"create", ready(object, nil), rankOf(object)})
		case !same(document{object: view(name, old)}, document{object: object}):
			all = append(all, step{"update", ready(object, view(name, old)), rankOf(object)})
		}
	}
	for name, content := range there {
		if _, still := wanted[name]; !still {
			object := view(name, content)
			all = append(all, step{"delete", object, 6 - rankOf(object)})
		}
	}
	slices.SortFunc(all, func(a, b step) int { return cmp.Compare(a.object.GetName(), b.object.GetName()) })
	return all
}

// rankOf puts roles before what binds them.
func rankOf(object *unstructured.Unstructured) int {
	if strings.Contains(object.GetKind(), "Binding") {
		return 2
	}
	return 1
}

// ready is an object as it is written over another one, or anew.
func ready(object, have *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetUID("")
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	delete(object.Object, "status")
	if have != nil {
		object.SetResourceVersion(have.GetResourceVersion())
	}
	return object
}

// restore makes the steps. Nothing is overwritten or deleted that has changed since it was looked at.
func restore(ctx context.Context, config *rest.Config, all []step, say func(string, ...any)) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, s := range all {
		resource, err := resourceOf(s.object)
		if err != nil {
			return err
		}
		r := client.Resource(resource).Namespace(s.object.GetNamespace())
		switch s.verb {
		case "create":
			_, err = r.Create(ctx, s.object, metav1.CreateOptions{})
		case "update":
			_, err = r.Update(ctx, s.object, metav1.UpdateOptions{})
		default:
			options := metav1.DeleteOptions{}
			if version := s.object.GetResourceVersion(); version != "" && s.rank != 6 { // a container has just lost its entries
				options.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
			}
			if err = r.Delete(ctx, s.object.GetName(), options); apierrors.IsNotFound(err) {
				err = nil
			}
		}
		name := document{object: s.object}.key()
		if err != nil {
			return fmt.Errorf("%s %s: %w; what was done before stays, and the same command goes on from there", s.verb, name, err)
		}
		say("%s %s: done\n", s.verb, name)
	}
	return nil
}

// resourceOf is where an object of policy is written.
func resourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	gvk := object.GroupVersionKind()
	if gvk.Group == "authorization.proviso.dev" {
		return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), nil
	}
	for _, kind := range snapshot.Kinds() {
		if kind.GroupVersion() == gvk.GroupVersion() && kindOf(kind) == gvk.Kind {
			return kind.GroupVersionResource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("%s is no policy", gvk.Kind)
}

// kindOf is the kind that a resource's objects have.
func kindOf(kind snapshot.Kind) string {
	name := fmt.Sprintf("%T", kind.Example)
	return name[strings.LastIndex(name, ".")+1:]
}
