package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// WhoCanOptions are the flags of `proviso who-can`.
type WhoCanOptions struct {
	*client
	ClusterWide bool
	Blocked     bool

	genericiooptions.IOStreams
}

// NewWhoCanCommand returns `proviso who-can`.
func NewWhoCanCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &WhoCanOptions{client: newClient(), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "who-can VERB RESOURCE [NAME]",
		Short: "List who can use a verb on a resource: always, and under which conditions",
		Long: `List the users and groups that can use a verb on a resource, from policies and RBAC together, deny rules and conditions
included. A user is judged with system:authenticated as the only group and a group as an unnamed member of it, since the
server does not know who is in which group.

Exit code 0 if somebody can, 1 if nobody can or the question failed.`,
		Example: `  # Who can update the deployment web in namespace hammer?
  proviso who-can update deployments.apps web -n hammer

  # And who would, were it not for a deny rule?
  proviso who-can delete configmaps -n hammer --blocked

  # Cluster-wide, for a script
  proviso who-can create namespaces -o json`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask who can in every namespace at once.")
	cmd.Flags().BoolVar(&o.Blocked, "blocked", false, "List also those whom a deny rule keeps from it.")
	return cmd
}

// Run asks and prints.
func (o *WhoCanOptions) Run(ctx context.Context, args []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	t, err := o.parseTarget(args[1:])
	if err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	path := "/apis/" + authz.SchemeGroupVersion.String()
	review := &authz.ResourceAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "ResourceAccessReview"},
		Spec:     authz.ResourceAccessReviewSpec{Verb: args[0], ResourceKind: t.qualified(), ResourceName: t.name, IncludeBlocked: o.Blocked},
	}
	if t.namespaced && !o.ClusterWide {
		path += "/namespaces/" + namespace
		review.Namespace = namespace
	}
	if err := o.post(ctx, path+"/resourceaccessreviews", review); err != nil {
		return err
	}
	if o.output != "table" {
		err = o.print(o.Out, review)
	} else {
		err = o.table(o.Out, review.Status)
	}
	if err != nil {
		return err
	}
	if len(review.Status.UserNames)+len(review.Status.GroupNames)+len(review.Status.Conditional) == 0 {
		return exitError{code: 1}
	}
	return nil
}

func (o *WhoCanOptions) table(out io.Writer, s authz.ResourceAccessReviewStatus) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tNAME\tCAN\tCONDITION")
	for _, u := range s.UserNames {
		fmt.Fprintf(w, "User\t%s\talways\t\n", u)
	}
	for _, g := range s.GroupNames {
		fmt.Fprintf(w, "Group\t%s\talways\t\n", g)
	}
	for _, c := range s.Conditional {
		kind, name := subject(c.UserName, c.GroupName)
		for _, condition := range c.Conditions {
			can := "if"
			switch {
			case condition.Effect == authz.EffectDeny:
				can = "unless"
			case condition.Condition == always && len(c.Conditions) > 1:
				continue // it is allowed unless what was said before
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", kind, name, can, oneLine(condition.Condition))
			kind, name = "", ""
		}
	}
	for _, b := range s.BlockedBy {
		kind, name := subject(b.UserName, b.GroupName)
		fmt.Fprintf(w, "%s\t%s\tblocked\t%s, by %s\n", kind, name, b.Rule, b.Binding)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Incomplete {
		fmt.Fprintf(out, "\nIncomplete: %s\n", s.IncompleteReason)
	}
	if s.EvaluationError != "" {
		fmt.Fprintf(out, "\nError: %s\n", s.EvaluationError)
	}
	return nil
}

func subject(userName, groupName string) (kind, name string) {
	if groupName != "" {
		return "Group", groupName
	}
	return "User", userName
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
