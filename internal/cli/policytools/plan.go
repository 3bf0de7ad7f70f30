package policytools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

// codeChanges is the exit code for something that would change.
const codeChanges = 2

// PlanOptions are the flags of `proviso plan`.
type PlanOptions struct {
	Origin          origin
	Files           []string
	Replay          []string
	Delete, Prune   bool
	Limit           int
	Output          string
	MasterNamespace string

	genericiooptions.IOStreams
}

// NewPlanCommand returns `proviso plan`.
func NewPlanCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newPlanCommand(streams, nil)
}

func newPlanCommand(streams genericiooptions.IOStreams, k *manifests.Kept) *cobra.Command {
	o := &PlanOptions{IOStreams: streams, MasterNamespace: "master", Output: "table", Origin: origin{keep: k}}
	cmd := &cobra.Command{
		Use:   "plan [--from DIR] -f FILE",
		Short: "Show what a change of policy would change: who gains, who loses, under which conditions",
		Long: `Show what applying files would change in the policy of a server, or of --from: for each rule, who gains, who loses and whose conditions
change. If a condition changes, an example shows an object that one side allows and the other refuses. The engine of the server decides,
locally; nothing is applied. A change that cannot be decided is reported as unknown.

With --replay, requests recorded in audit logs are decided again, and those with a different result are listed. A request is counted as
undecided if its audit level does not record enough to evaluate a condition.

Users are assumed to be in the group system:authenticated only; a group stands for a member without further groups. The namespace * stands
for every namespace and for cluster-scoped resources; (others) stands for every namespace without them. The cluster roles of Kubernetes are
included only if --from has them.

The effect of protected attributes and field permissions depends on the labels and fields that users write. Changes of these are
reported without naming subjects.

Conditions and access rules can depend on Namespaces. For a Namespace that is new, changed or deleted, the rules with a condition on it are
reported with the subjects who have them. Other objects that affect access and are not compared are reported, too. All of these count as a
change. A deleted namespace takes the policy in it with it.

Exit code 0 if nothing changes, 2 if something changes or may change, 3 if the question could not be answered.`,
		Example: `  # What would this role change in the cluster? And which requests of the last days would have been refused?
  proviso plan -f change.yaml --replay audit.log --replay audit.log.1.gz

  # The same without the cluster, on files
  proviso plan --from policies/ -f change.yaml

  # And if it were deleted?
  proviso plan --from policies/ -f change.yaml --delete

  # Replace the whole policy by a directory, for a pull request
  kustomize build new/ | proviso plan --from old/ -f - --prune -o markdown`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunPlan(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.Origin.addFlags(fs)
	o.Origin.addNamespace(fs)
	fs.StringSliceVarP(&o.Files, "filename", "f", nil, "Files and directories to apply; - is standard input.")
	fs.BoolVar(&o.Delete, "delete", false, "Plan to delete the objects instead of applying them.")
	fs.BoolVar(&o.Prune, "prune", false, "Also plan to delete roles and bindings that the files do not contain, except those that Kubernetes creates.")
	fs.StringSliceVar(&o.Replay, "replay", nil, "Decide the requests of these audit logs again, and list those with a different result. Plain or gzip; - is standard input.")
	fs.IntVar(&o.Limit, "limit", 0, "Name at most this many subjects of a change and count the others. 0 names all, except in table and markdown, which name five.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, wide, json, yaml or markdown.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Validate checks the flags.
func (o *PlanOptions) Validate() error {
	switch {
	case len(o.Files) == 0:
		return errors.New("name the files to apply: -f FILE")
	case o.Delete && o.Prune:
		return errors.New("--delete and --prune are mutually exclusive")
	case o.Limit < 0:
		return fmt.Errorf("--limit %d: want 0 or more", o.Limit)
	case slices.Contains(o.Files, "-") && slices.Contains(o.Replay, "-"):
		return errors.New("-f - and --replay - are mutually exclusive: only one of them can read standard input")
	case !slices.Contains([]string{"table", wide, "json", "yaml", "markdown"}, o.Output):
		return fmt.Errorf("-o %s: want table, wide, json, yaml or markdown", o.Output)
	}
	return o.Origin.validate()
}

// codeOf is how a command ends that has reported a change.
func codeOf(r *policychange.Report) error {
	if r.Differs() {
		return exit(codeChanges)
	}
	return nil
}

// RunPlan answers and prints.
func (o *PlanOptions) RunPlan(ctx context.Context) error {
	change, err := manifests.Read(o.Files, o.In)
	if err != nil {
		return err
	}
	if len(change) == 0 {
		return fmt.Errorf("-f: no objects found")
	}
	var namespaces []string
	for _, d := range change {
		namespaces = append(namespaces, d.Object.GetNamespace())
		if d.IsNamespace() {
			namespaces = append(namespaces, d.Object.GetName())
		}
	}
	o.Origin.some(namespaces...)
	before, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	after, err := policychange.Applied(before, change, o.Delete, o.Prune)
	if err != nil {
		return err
	}
	hosts := [2]*offline.Host{}
	if hosts[0], err = o.Origin.host(ctx, before, o.MasterNamespace); err != nil {
		return err
	}
	if hosts[1], err = offline.New(offline.Config{Texts: manifests.Texts(after), MasterNamespace: o.MasterNamespace, Base: hosts[0]}); err != nil {
		return err
	}
	kept, refused := change, []policychange.Rejected(nil)
	if o.Delete {
		kept, refused = nil, policychange.Undeletable(change, o.MasterNamespace)
	}
	result, err := policychange.Plan(ctx, hosts[0], hosts[1], kept, o.Limit)
	if err != nil {
		return err
	}
	result.Rejected = append(append(result.Rejected, refused...), policychange.Invalid(hosts[0], kept, o.MasterNamespace)...)
	if result.AppliedBy, err = policychange.Appliers(ctx, hosts[0], hosts[1], before, change, o.Delete); err != nil {
		return err
	}
	if text := o.Origin.unseenText(); text != "" {
		result.Unknown = append(result.Unknown, text)
	}
	if len(o.Replay) > 0 {
		if result.Replay, err = o.replayed(ctx, hosts[0], hosts[1]); err != nil {
			return err
		}
	}
	if err := printPlan(o.Out, o.Output, result); err != nil {
		return err
	}
	return codeOf(result)
}
