package policytools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/snapshot"
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
	history, err := readJournal(ctx, config, nil)
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
	if now, err = withSinks(ctx, config, now); err != nil {
		return err
	}
	then, err := asOf(now, history.Entries, revision)
	if err != nil {
		return err
	}
	put, remove := difference(now, then)
	todo := steps(now, put, remove)
	if len(todo) == 0 {
		_, _ = fmt.Fprintf(o.ErrOut, "The policy is what it was at revision %s: there is nothing to do.\n", name)
		return nil
	}
	for _, s := range todo {
		_, _ = fmt.Fprintf(o.ErrOut, "%s %s\n", s.verb, manifests.Key(s.object))
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

// withSinks replaces audit sinks by what they are in full: what is read for plans withholds how they are reached.
func withSinks(ctx context.Context, config *rest.Config, now []manifests.Document) ([]manifests.Document, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for i, d := range now {
		if d.Object.GroupVersionKind().Group != snapshot.AuditSinks.Group || d.Object.GetKind() != kindOf(snapshot.AuditSinks) {
			continue
		}
		object, err := client.Resource(snapshot.AuditSinks.GroupVersionResource).Get(ctx, d.Object.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Key(), err)
		}
		now[i].Object = object
	}
	return now, nil
}

// step is one write or deletion.
type step struct {
	verb   string
	object *unstructured.Unstructured
	// rank orders steps: containers (0), roles (1) and bindings (2) are written, then bindings (4), roles (5) and
	// containers (6) deleted.
	rank int
}

// steps are what is written and deleted. Roles and role bindings of Policy are written one by one: their containers are
// made empty, and changed through them only.
func steps(now, put, remove []manifests.Document) (all []step) {
	there := map[string]*unstructured.Unstructured{}
	for _, d := range now {
		there[d.Key()] = d.Object
	}
	for _, d := range put {
		have := there[d.Key()]
		container, holds := containers[d.Object.GroupVersionKind().GroupKind().String()]
		if !holds {
			all = append(all, rewritten(d.Object, have)...)
			continue
		}
		if have == nil {
			empty := ready(d.Object, nil)
			delete(empty.Object, container.field)
			all = append(all, step{"create", empty, 0})
		}
		all = append(all, entries(d.Object, have, container.field)...)
	}
	for _, d := range remove {
		if container, holds := containers[d.Object.GroupVersionKind().GroupKind().String()]; holds {
			all = append(all, entries(nil, d.Object, container.field)...)
			all = append(all, step{"delete", d.Object, 6})
			continue
		}
		all = append(all, step{"delete", d.Object, 6 - rankOf(d.Object)})
	}
	return inOrder(all)
}

// inOrder puts containers before roles before what binds them, and deletions last, except of what is then made anew.
func inOrder(all []step) []step {
	made := map[string]bool{}
	for _, s := range all {
		if s.verb == "create" {
			made[manifests.Key(s.object)] = true
		}
	}
	for i, s := range all {
		if s.verb == "delete" && made[manifests.Key(s.object)] {
			all[i].rank = rankOf(s.object)
		}
	}
	place := func(s step) int {
		if s.verb == "delete" {
			return 2 * s.rank
		}
		return 2*s.rank + 1
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// rewritten makes one object into another one, which may be missing. What a binding binds cannot be changed: it is made
// anew.
func rewritten(want, have *unstructured.Unstructured) []step {
	rank := rankOf(want)
	if have == nil {
		return []step{{"create", ready(want, nil), rank}}
	}
	if !equality.Semantic.DeepEqual(want.Object["roleRef"], have.Object["roleRef"]) {
		return []step{{"delete", have, rank}, {"create", ready(want, nil), rank}}
	}
	return []step{{"update", ready(want, have), rank}}
}

// entries are the steps that make what a container holds into what another one does; either may be missing.
func entries(want, have *unstructured.Unstructured, field string) (all []step) {
	wanted, there := views(want, field), views(have, field)
	for name, object := range wanted {
		old, exists := there[name]
		if !exists || !same(old, object) {
			all = append(all, rewritten(object, old)...)
		}
	}
	for name, object := range there {
		if wanted[name] == nil {
			all = append(all, step{"delete", object, 6 - rankOf(object)})
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.object.GetName(), b.object.GetName()) })
	return all
}

// views are the roles or role bindings of a container as people write them.
func views(c *unstructured.Unstructured, field string) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	if c == nil {
		return out
	}
	inside, _, _ := unstructured.NestedMap(c.Object, field) // a copy
	for name, content := range inside {
		fields, _ := content.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetAPIVersion("authorization.proviso.dev/v1alpha1")
		object.SetKind("Role")
		object.SetNamespace(c.GetNamespace())
		object.SetName(name)
		if field == "roleBindings" {
			object.SetKind("RoleBinding")
			asView(object, c)
		}
		out[name] = object
	}
	return out
}

// asView names the role of a role binding as people do: the container says of which namespace it is.
func asView(object, container *unstructured.Unstructured) {
	role, _, _ := unstructured.NestedString(object.Object, "roleName")
	namespace, _, _ := unstructured.NestedString(container.Object, "policyRef", "namespace")
	if namespace == "" {
		namespace = container.GetName() // it follows from the name
	}
	spelled, _, _ := unstructured.NestedStringSlice(object.Object, "spellings")
	delete(object.Object, "spellings")
	object.Object["roleRef"] = map[string]any{"namespace": namespace, "name": role}
	if !slices.Contains(spelled, policyv1alpha1.SpellingRoleName) {
		delete(object.Object, "roleName")
	}
	if slices.Contains(spelled, policyv1alpha1.SpellingGlobalRole) {
		object.Object["referencesGlobalRole"] = true
	}
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
		name := manifests.Key(s.object)
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
