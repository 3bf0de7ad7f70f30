package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// ShadowOptions are the flags of `proviso shadow`.
type ShadowOptions struct {
	*client
	AllNamespaces bool
	Flips         bool

	genericiooptions.IOStreams
}

// NewShadowCommand returns `proviso shadow`.
func NewShadowCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &ShadowOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "List the rules that are not enforced, and what they would have changed",
		Long: `List the rules, protected attributes and field permissions whose enforcement is Warn or Shadow, and what they would have changed: how
many requests they applied to, how many of these would have been allowed or denied instead, and how many are undecided because the
object was not read. --flips lists the latest of them.

Each server counts its own requests, in memory, since it first saw the current version of the rule. Rules without a namespace are
listed in the master namespace. You need the right to list shadowrules.authorization.proviso.dev, which admins have in their namespace.`,
		Example: `  # What would the rules of namespace hammer have changed?
  proviso shadow -n hammer

  # Which requests?
  proviso shadow -n hammer --flips

  # Everything that is not enforced yet
  proviso shadow -A

  # Enforce a rule
  proviso shadow promote role.dev-volumes.0 -n hammer`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "List the rules of every namespace.")
	cmd.Flags().BoolVar(&o.Flips, "flips", false, "List the latest requests that would have been answered differently.")
	cmd.AddCommand(newPromoteCommand(streams))
	return cmd
}

// shadowPath is where rules that are not enforced are read.
func shadowPath(namespace string) string {
	path := "/apis/" + authz.SchemeGroupVersion.String()
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/shadowrules"
}

// Run asks and prints.
func (o *ShadowOptions) Run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	namespace := ""
	if !o.AllNamespaces {
		var err error
		if namespace, err = o.namespace(); err != nil {
			return err
		}
	}
	list := &authz.ShadowRuleList{}
	if err := o.get(ctx, shadowPath(namespace), nil, list); err != nil {
		return noShadows(err)
	}
	switch o.format {
	case "table":
		if len(list.Items) == 0 {
			where := "."
			if namespace != "" {
				where = " in namespace " + namespace + "; see -A."
			}
			_, err := terminal.Fprintf(o.ErrOut, "Everything is enforced%s\n", where)
			return err
		}
		if o.Flips {
			return flipsTable(o.Out, list.Items, o.AllNamespaces)
		}
		return shadowTable(o.Out, list.Items, o.AllNamespaces, time.Now())
	case "name":
		for _, r := range list.Items {
			if _, err := terminal.Fprintf(o.Out, "shadowrule.%s/%s\n", authz.GroupName, r.Name); err != nil {
				return err
			}
		}
		return nil
	}
	return o.print(o.Out, list)
}

func noShadows(err error) error {
	if apierrors.IsNotFound(err) {
		return errors.New("the server cannot list rules that are not enforced: it is not Proviso, or it is an older release")
	}
	return err
}

func shadowTable(out io.Writer, rules []authz.ShadowRule, namespaces bool, now time.Time) error {
	header := "NAME\tENFORCEMENT\tEFFECT\tSINCE\tAPPLIED\tWOULD ALLOW\tWOULD DENY\tUNDECIDED\tDESCRIPTION"
	if namespaces {
		header = "NAMESPACE\t" + header
	}
	return table(out, cutLines("yaml"), nil, func(w io.Writer) {
		terminal.Fprintln(w, terminal.Lines(header))
		for _, r := range rules {
			if namespaces {
				terminal.Fprintf(w, "%s\t", r.Namespace)
			}
			s := r.Status
			terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Name, r.Enforcement, effectOf(r), duration.HumanDuration(now.Sub(s.Since.Time)),
				s.Applied, s.WouldAllow, s.WouldDeny, s.Undecided, oneLine(r.Description))
		}
	})
}

func effectOf(r authz.ShadowRule) string {
	if r.Denies {
		return "deny"
	}
	return "allow"
}

func flipsTable(out io.Writer, rules []authz.ShadowRule, namespaces bool) error {
	header := "NAME\tTIME\tUSER\tREQUEST\tWAS\tWOULD BE"
	if namespaces {
		header = "NAMESPACE\t" + header
	}
	return table(out, cutLines("yaml"), allowOrDeny, func(w io.Writer) {
		terminal.Fprintln(w, terminal.Lines(header))
		for _, r := range rules {
			for _, f := range r.Status.Flips {
				if namespaces {
					terminal.Fprintf(w, "%s\t", r.Namespace)
				}
				terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, f.Time.UTC().Format(time.RFC3339), oneLine(f.User), requestOf(f), f.Was, f.Would)
			}
		}
	})
}

// allowOrDeny colours a flip by what the request would be.
func allowOrDeny(line string) terminal.Colour {
	switch {
	case strings.HasSuffix(line, " Allow"):
		return terminal.Green
	case strings.HasSuffix(line, " Deny"):
		return terminal.Red
	}
	return terminal.None
}

// requestOf is a request as people write it: create pods/exec of apps in hammer.
func requestOf(f authz.ShadowFlip) string {
	if f.Path != "" {
		return oneLine(f.Verb + " " + f.Path)
	}
	what := f.Resource
	if f.APIGroup != "" {
		what += "." + f.APIGroup
	}
	if f.Subresource != "" {
		what += "/" + f.Subresource
	}
	if f.Name != "" {
		what += " " + f.Name
	}
	if f.Namespace != "" {
		what += " in " + f.Namespace
	}
	return oneLine(f.Verb + " " + strings.TrimSpace(what))
}
