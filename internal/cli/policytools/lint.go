package policytools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// LintOptions are the flags of `proviso lint`.
type LintOptions struct {
	origin
	Output          string
	Severity        string
	Ignore          []string
	Explain         string
	MasterNamespace string
	// objects lists what a server has, for labels that no object has; nil if no server is asked.
	objects lister

	genericiooptions.IOStreams
}

// NewLintCommand returns `proviso lint`.
func NewLintCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newLintCommand(streams, nil)
}

func newLintCommand(streams genericiooptions.IOStreams, objects lister) *cobra.Command {
	o := &LintOptions{objects: objects, IOStreams: streams, MasterNamespace: "master", Output: "table", Severity: string(lint.Warning)}
	cmd := &cobra.Command{
		Use:   "lint [DIR | FILE]...",
		Short: "Find problems in policy: rules that do nothing, unknown names, grants that amount to every right",
		Long: `Find problems in the policy of a server or of files: rules that do nothing, conditions that always hold, never hold or fail,
misspelled kinds and verbs, grants that amount to every right, audit sinks without a receiver. The engine of the server decides;
if it cannot be certain, nothing is reported.

Each finding has a stable code, its place in the file, and advice. --explain CODE says more.

With --kubeconfig, the command also checks whether any object has the labels that conditions name, and whether objects had a
protected label or annotation before it was protected. You need the right to list the objects. It reads at most 20 kinds for each
rule or protection, unless a label selects the objects, and 10,000 objects of each kind, and reports what it did not read.

Known kinds are those of Kubernetes and of the CRDs in the files. Users are assumed to be in the group system:authenticated only.

Exit code 0 if there is no finding of severity error, 1 if there is one, 3 if the files could not be read.`,
		Example: `  # A directory of policies
  proviso lint --from policies/

  # Everything, notes included
  proviso lint policies/ --severity note

  # The policy of a server, without the roles that Kubernetes ships
  proviso lint --kubeconfig admin.kubeconfig

  # For a code-scanning tool
  proviso lint policies/ -o sarif > lint.sarif

  # What does PV005 mean?
  proviso lint --explain PV005`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.From = append(o.From, args...)
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunLint(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	o.addNamespace(fs)
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, json or sarif.")
	fs.StringVar(&o.Severity, "severity", o.Severity, "Lowest severity to show: error, warning or note.")
	fs.StringSliceVar(&o.Ignore, "ignore", nil, "Codes to ignore.")
	fs.StringVar(&o.Explain, "explain", "", "Explain a code.")
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Validate checks the flags.
func (o *LintOptions) Validate() error {
	for _, id := range append(slices.Clone(o.Ignore), o.Explain) {
		if _, known := lint.CodeOf(id); !known && id != "" {
			codes := lint.Codes()
			return fmt.Errorf("%s is not a code of proviso lint; codes are %s to %s", id, codes[0].ID, codes[len(codes)-1].ID)
		}
	}
	switch {
	case o.Explain != "":
	case !slices.Contains([]string{"table", "json", "sarif"}, o.Output):
		return fmt.Errorf("-o %s: want table, json or sarif", o.Output)
	case !slices.Contains([]string{string(lint.Error), string(lint.Warning), string(lint.Note)}, o.Severity):
		return fmt.Errorf("--severity %s: want error, warning or note", o.Severity)
	}
	return o.validate()
}

// RunLint looks and prints.
func (o *LintOptions) RunLint(ctx context.Context) error {
	if o.Explain != "" {
		code, _ := lint.CodeOf(o.Explain)
		_, err := terminal.Fprintf(o.Out, "%s: %s\n\n%s\n\n%s\n", code.ID, code.Title, code.Why, code.Do)
		return err
	}
	o.some()
	documents, err := o.origin.read(ctx)
	if err != nil {
		return err
	}
	if len(documents) == 0 {
		return fmt.Errorf("%s: no objects found", cmp.Or(strings.Join(o.From, ", "), "the server's policy"))
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: o.MasterNamespace})
	if err != nil {
		return err
	}
	where, err := manifests.Locate(o.From, documents)
	if err != nil {
		return err
	}
	if o.objects == nil && o.live() {
		if o.objects, err = o.lister(); err != nil {
			return err
		}
	}
	result, err := o.linted(ctx, host, where)
	if err != nil {
		return err
	}
	o.sayUnseen(o.ErrOut)
	result.narrow(lint.Severity(o.Severity), o.Ignore)
	if err := result.print(o.Out, o.Output); err != nil {
		return err
	}
	if result.Errors > 0 {
		return exit(codeNo)
	}
	return nil
}

// linted asks about all that a host has.
func (o *LintOptions) linted(ctx context.Context, host *offline.Host, where *manifests.Places) (*lintReport, error) {
	u, err := offline.NewUniverse(host)
	if err != nil {
		return nil, err
	}
	in := lint.Input{
		Index: host.Snapshot().Rules, Comparer: &compare.Comparer{Cache: host.Conditions(), Budget: compare.DefaultBudget / 5},
		Resources: u.Resources, Verbs: u.Verbs, Namespaces: u.Namespaces, Names: u.Names, Now: time.Now(), Fields: host.Snapshot().Fields,
		Ours: func(ref ruleset.RoleRef) bool {
			_, ours := policies.DefaultRoles()[ref.Name]
			return ours && ref.Kind == ruleset.PolicyRole && ref.Namespace == o.MasterNamespace
		},
	}
	for _, kind := range snapshot.Kinds() {
		objects, err := host.Files().Objects(kind)
		if err != nil {
			return nil, err
		}
		in.Policies = append(in.Policies, snapshot.Of[*policyv1alpha1.Policy](objects)...)
		in.PolicyBindings = append(in.PolicyBindings, snapshot.Of[*policyv1alpha1.PolicyBinding](objects)...)
		in.Roles = append(in.Roles, snapshot.Of[*rbacv1.Role](objects)...)
		in.ClusterRoles = append(in.ClusterRoles, snapshot.Of[*rbacv1.ClusterRole](objects)...)
		in.RoleBindings = append(in.RoleBindings, snapshot.Of[*rbacv1.RoleBinding](objects)...)
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, snapshot.Of[*rbacv1.ClusterRoleBinding](objects)...)
		in.Sinks = append(in.Sinks, snapshot.Of[*auditv1alpha1.AuditSink](objects)...)
		in.NamespaceSinks = append(in.NamespaceSinks, snapshot.Of[*policyv1alpha1.NamespaceAuditSink](objects)...)
		in.Guards = append(in.Guards, guardsOf(objects)...)
		in.Classes = append(in.Classes, snapshot.Of[*auditv1alpha1.AuditClass](objects)...)
		in.Reachable = append(in.Reachable, reachables(ctx, host, snapshot.Of[*policyv1alpha1.FieldPermission](objects))...)
		in.Shown = append(in.Shown, hiding(snapshot.Of[*policyv1alpha1.FieldPermission](objects))...)
	}
	if o.objects == nil || !o.objects.besideStock(ctx) {
		in.Shown = nil
	}
	if o.objects != nil {
		in.Namings = slices.DeleteFunc(lint.Namings(in), func(n lint.Naming) bool { return where.Shipped(n.Object) })
		if in.Labelled, err = labelled(ctx, o.objects, in.Namings, o.ErrOut); err != nil {
			return nil, err
		}
		if in.Carriers, err = carriers(ctx, o.objects, lint.Searches(in), o.ErrOut); err != nil {
			return nil, err
		}
	}
	remarks, err := lint.Check(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &lintReport{APIVersion: offline.ToolsVersion, Kind: "LintReport", Findings: []lintFinding{}}
	for _, r := range remarks {
		if !where.Shipped(r.Object) {
			out.add(r, where.Of(r))
		}
	}
	slices.SortStableFunc(out.Findings, func(a, b lintFinding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code))
	})
	return out, nil
}
