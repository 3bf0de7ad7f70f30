package policytools

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/matrix"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/cli/atflag"
	"proviso.dev/proviso/internal/cli/subject"
	"proviso.dev/proviso/internal/cli/verbflag"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// MatrixOptions are the flags of `proviso matrix`.
type MatrixOptions struct {
	Origin                       origin
	Namespaces, Resources, Verbs []string
	who                          subject.Flags
	Output                       string
	Limit                        int
	MasterNamespace              string
	At                           atflag.Flag
	// System names the subjects of Kubernetes, which a table only counts.
	System bool

	genericiooptions.IOStreams
}

// NewMatrixCommand returns `proviso matrix`.
func NewMatrixCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newMatrixCommand(streams, nil)
}

func newMatrixCommand(streams genericiooptions.IOStreams, k *manifests.Kept) *cobra.Command {
	o := &MatrixOptions{Origin: origin{keep: k}, IOStreams: streams, MasterNamespace: "master", Output: "table"}
	cmd := &cobra.Command{
		Use:   "matrix [DIR | FILE]...",
		Short: "Show who may do what: subjects by resources, yes, if, no or denied",
		Long: `Show who may do what by the policy of a server or of files: a table of subjects and resources, with a cell for each verb. A cell is
yes, if (under a condition, or for some names), no, or denied (by a deny rule). Subjects, namespaces and resources with the same
cells share a line. Lines with nothing allowed or denied are left out. The engine of the server decides every cell, locally.

Users are assumed to be in the group system:authenticated only; a group stands for a member without further groups. (others) stands for
all namespaces without policy objects. The group system:masters may do everything, and is shown only if --group names it. Nothing is said
of nodes and webhooks, and of the cluster roles of Kubernetes only if the server or the files have them. A table counts users and groups of the system; --system, and every other form, shows them.`,
		Example: `  # Everybody, everywhere
  proviso matrix --from policies/

  # What may Edgar do, by the policy of the cluster?
  proviso matrix --user edgar

  # One team in one namespace
  proviso matrix policies/ --group team-a --namespace hammer

  # Who may read or delete secrets, for a spreadsheet
  proviso matrix policies/ --resource secrets --verb get,delete -o csv > secrets.csv

  # Who may do what in two hours, when bindings have ended
  proviso matrix policies/ --at +2h

  # A page to look at
  proviso matrix policies/ -o html > matrix.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Origin.From = append(o.Origin.From, args...)
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunMatrix(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.Origin.addFlags(fs)
	o.who.Add(fs, "Show this subject instead of all that are bound to a role.")
	o.who.AddFormer(fs, "subject")
	fs.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "Namespaces to show. Default: all, and cluster-scoped resources.")
	fs.StringSliceVar(&o.Resources, "resource", nil, "Resources to show, such as pods, pods/exec or deployments.apps. Default: all.")
	fs.StringSliceVar(&o.Verbs, "verb", nil, "Verbs to show. Default: those of requests.")
	fs.IntVar(&o.Limit, "limit", 0, "Name at most this many subjects in a line and count the others. 0 names all; csv always names all.")
	fs.BoolVar(&o.System, "system", false, "Also show users and groups of the system, which a table only counts.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, wide, html, csv or json.")
	o.At.Add(fs)
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Validate checks the flags.
func (o *MatrixOptions) Validate() error {
	if !slices.Contains([]string{"table", wide, "html", "csv", "json"}, o.Output) {
		return fmt.Errorf("-o %s: want table, wide, html, csv or json", o.Output)
	}
	if o.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0 or more", o.Limit)
	}
	if _, err := o.who.All(); err != nil {
		return err
	}
	if _, err := o.At.Asked(); err != nil {
		return err
	}
	return o.Origin.validate()
}

// RunMatrix answers and prints.
func (o *MatrixOptions) RunMatrix(ctx context.Context) error {
	verbflag.Warn(o.ErrOut, o.Verbs...)
	o.Origin.some(o.Namespaces...)
	documents, err := o.Origin.read(ctx)
	if err != nil {
		return err
	}
	o.Origin.sayUnseen(o.ErrOut)
	host, err := o.Origin.host(ctx, documents, o.MasterNamespace)
	if err != nil {
		return err
	}
	u, err := offline.NewUniverse(host)
	if err != nil {
		return err
	}
	snap, changes, err := o.moment(host.Snapshot())
	if err != nil {
		return err
	}
	in, err := o.input(snap, host, u)
	if err != nil {
		return err
	}
	cells, err := matrix.Cells(ctx, in)
	if err != nil {
		return err
	}
	folded := 0
	if !o.who.Given() {
		// system:masters may do everything, which is not news.
		cells, _ = leaveOut(cells, func(s ruleset.Subject) bool { return s.Group && s.Name == user.SystemPrivilegedGroup })
		if o.Output == "table" && !o.System {
			cells, folded = leaveOut(cells, func(s ruleset.Subject) bool { return subject.Folds(s.Name) })
		}
	}
	places := append(slices.Clone(u.Namespaces), matrix.Elsewhere)
	if len(o.Namespaces) > 0 {
		places = nil // nothing holds everywhere if not everything was looked at
	}
	if len(cells) > 0 || folded == 0 {
		if err := printMatrix(o.Out, o.Output, in.Verbs, cells, places, o.Limit); err != nil {
			return err
		}
	}
	if folded > 0 {
		terminal.Fprintf(o.ErrOut, "And %s of the system; --system lists them.\n", terminal.Count(folded, "user or group", "users and groups"))
	}
	if changes.IsZero() {
		return nil
	}
	terminal.Fprintf(o.ErrOut, "Note: until %s, when role bindings begin or end; --at asks about another instant.\n", changes.UTC().Format(time.RFC3339))
	return nil
}

// moment is the policy at the instant of --at, and when it changes next; zero if it never does.
func (o *MatrixOptions) moment(snap *snapshot.Snapshot) (then *snapshot.Snapshot, changes time.Time, err error) {
	at, err := o.At.Asked()
	if err != nil {
		return nil, changes, err
	}
	now := time.Now()
	if at != nil {
		now, snap = at.Time, snap.At(at.Time)
	}
	for _, edge := range snap.Edges(nil) {
		if edge.After(now) {
			return snap, edge, nil
		}
	}
	return snap, changes, nil
}

// leaveOut leaves subjects out, and says how many.
func leaveOut(cells []matrix.Cell, which func(ruleset.Subject) bool) ([]matrix.Cell, int) {
	left := map[ruleset.Subject]bool{}
	for i := range cells {
		if !slices.ContainsFunc(cells[i].Subjects, which) {
			continue
		}
		var kept []ruleset.Subject
		for _, s := range cells[i].Subjects {
			if which(s) {
				left[s] = true
			} else {
				kept = append(kept, s)
			}
		}
		cells[i].Subjects = kept
	}
	return slices.DeleteFunc(cells, func(c matrix.Cell) bool { return len(c.Subjects) == 0 }), len(left)
}

// input is what the flags ask for.
func (o *MatrixOptions) input(snap *snapshot.Snapshot, host *offline.Host, u *offline.Universe) (in matrix.Input, err error) {
	in = matrix.Input{Index: snap.Rules, Server: host, Resources: u.Resources, Verbs: verbs.All(),
		Namespaces: append(slices.Clone(u.Namespaces), matrix.Elsewhere, ""), Names: u.Names}
	if len(o.Namespaces) > 0 {
		in.Namespaces = o.Namespaces
	}
	if len(o.Verbs) > 0 {
		in.Verbs = o.Verbs
	}
	wanted, err := o.who.All()
	if err != nil {
		return in, err
	}
	in.Subjects = append(in.Subjects, wanted...)
	if len(o.Resources) == 0 {
		return in, nil
	}
	in.Resources = nil
	for _, wanted := range o.Resources {
		found := slices.DeleteFunc(slices.Clone(u.Resources), func(r plan.Resource) bool {
			return wanted != resourceName(r.Group, r.Resource, r.Subresource) && wanted != resourceName("", r.Resource, r.Subresource)
		})
		if len(found) == 0 {
			return in, fmt.Errorf("--resource %s: unknown resource", wanted)
		}
		in.Resources = append(in.Resources, found...)
	}
	return in, nil
}

// resourceName is deployments.apps/scale.
func resourceName(group, resource, sub string) string {
	if group != "" {
		resource += "." + group
	}
	if sub != "" {
		resource += "/" + sub
	}
	return resource
}
