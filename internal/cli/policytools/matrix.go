package policytools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/analysis/matrix"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// MatrixOptions are the flags of `proviso matrix`.
type MatrixOptions struct {
	Origin                                 origin
	Subjects, Namespaces, Resources, Verbs []string
	Output                                 string
	Limit                                  int
	MasterNamespace                        string

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
		Long: `Show who may do what by the policy of a server, or in files: subjects by resources, with a cell for each verb, which is yes, if (under a
condition, or for some names), no, or denied by a deny rule. Subjects, namespaces and resources with the same cells are one line; what is
neither allowed nor denied is left out. The engine of the server decides every cell, in this process.

A user is judged as a member of system:authenticated only, a group as an unnamed member of it. (others) are the namespaces that no object of the
policy is in. system:masters, nodes and webhooks are not in it, and Kubernetes' own cluster roles only if the server or the files have them.`,
		Example: `  # Everybody, everywhere
  proviso matrix --from policies/

  # What may Edgar do, by the policy of the cluster?
  proviso matrix --subject edgar

  # One team in one namespace
  proviso matrix policies/ --subject group:team-a --namespace hammer

  # Who may read or delete secrets, for a spreadsheet
  proviso matrix policies/ --resource secrets --verb get,delete -o csv > secrets.csv

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
	fs.StringSliceVar(&o.Subjects, "subject", nil, "Who: a user, group:NAME or serviceaccount:NAMESPACE/NAME. Left out, everybody who is bound to anything.")
	fs.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "Where. Left out, every namespace and what belongs to none.")
	fs.StringSliceVar(&o.Resources, "resource", nil, "What: plurals, such as pods, pods/exec or deployments.apps. Left out, everything.")
	fs.StringSliceVar(&o.Verbs, "verb", nil, "The verbs. Left out, those of requests.")
	fs.IntVar(&o.Limit, "limit", 0, "Name at most that many subjects in a line and count the others. 0 names all; csv always does.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, wide, html, csv or json.")
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
	for _, s := range o.Subjects {
		if _, err := parseSubject(s); err != nil {
			return err
		}
	}
	return o.Origin.validate()
}

// parseSubject reads a user, group:NAME or serviceaccount:NAMESPACE/NAME.
func parseSubject(text string) (ruleset.Subject, error) {
	if group, ok := strings.CutPrefix(text, "group:"); ok && group != "" {
		return ruleset.Subject{Group: true, Name: group}, nil
	}
	if account, ok := strings.CutPrefix(text, "serviceaccount:"); ok {
		namespace, name, whole := strings.Cut(account, "/")
		if !whole || namespace == "" || name == "" {
			return ruleset.Subject{}, fmt.Errorf("%s: want serviceaccount:NAMESPACE/NAME", text)
		}
		return ruleset.Subject{Name: "system:serviceaccount:" + namespace + ":" + name}, nil
	}
	if user := strings.TrimPrefix(text, "user:"); user != "" && text != "group:" {
		return ruleset.Subject{Name: user}, nil
	}
	return ruleset.Subject{}, fmt.Errorf("%q: want a user, group:NAME or serviceaccount:NAMESPACE/NAME", text)
}

// RunMatrix answers and prints.
func (o *MatrixOptions) RunMatrix(ctx context.Context) error {
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
	in, err := o.input(host, u)
	if err != nil {
		return err
	}
	cells, err := matrix.Cells(ctx, in)
	if err != nil {
		return err
	}
	// system:masters may do everything, which is no news.
	if len(o.Subjects) == 0 {
		cells = leaveOut(cells, ruleset.Subject{Group: true, Name: "system:masters"})
	}
	places := append(slices.Clone(u.Namespaces), matrix.Elsewhere)
	if len(o.Namespaces) > 0 {
		places = nil // nothing holds everywhere if not everything was looked at
	}
	return printMatrix(o.Out, o.Output, in.Verbs, cells, places, o.Limit)
}

// leaveOut leaves a subject out.
func leaveOut(cells []matrix.Cell, who ruleset.Subject) []matrix.Cell {
	for i := range cells {
		if slices.Contains(cells[i].Subjects, who) {
			cells[i].Subjects = slices.DeleteFunc(slices.Clone(cells[i].Subjects), func(s ruleset.Subject) bool { return s == who })
		}
	}
	return slices.DeleteFunc(cells, func(c matrix.Cell) bool { return len(c.Subjects) == 0 })
}

// input is what the flags ask for.
func (o *MatrixOptions) input(host *offline.Host, u *offline.Universe) (in matrix.Input, err error) {
	in = matrix.Input{Index: host.Snapshot().Rules, Resources: u.Resources, Verbs: verbs.All(),
		Namespaces: append(slices.Clone(u.Namespaces), matrix.Elsewhere, ""), Names: u.Names}
	if len(o.Namespaces) > 0 {
		in.Namespaces = o.Namespaces
	}
	if len(o.Verbs) > 0 {
		in.Verbs = o.Verbs
	}
	for _, text := range o.Subjects {
		s, err := parseSubject(text)
		if err != nil {
			return in, err
		}
		in.Subjects = append(in.Subjects, s)
	}
	if len(o.Resources) == 0 {
		return in, nil
	}
	in.Resources = nil
	for _, wanted := range o.Resources {
		found := slices.DeleteFunc(slices.Clone(u.Resources), func(r plan.Resource) bool {
			return wanted != resourceName(r.Group, r.Resource, r.Subresource) && wanted != resourceName("", r.Resource, r.Subresource)
		})
		if len(found) == 0 {
			return in, fmt.Errorf("--resource %s: no such resource is known", wanted)
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
