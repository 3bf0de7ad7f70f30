package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/cli/verbflag"
	"proviso.dev/proviso/internal/platform/terminal"
)

// NewAccessCommand returns `proviso access`.
func NewAccessCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Ask for rights that end, and approve what others ask for",
		Long: `Request a role for a limited time, as an AccessRule allows; approve, deny or revoke requests of others; and report
what was done with a grant.`,
	}
	cmd.AddCommand(newAccessRequestCommand(streams), newAccessListCommand(streams),
		newDecisionCommand(streams, "approve", access.Approve), newDecisionCommand(streams, "deny", access.Deny), newAccessRevokeCommand(streams), newAccessReportCommand(streams))
	return cmd
}

// accessOptions are the options common to the commands.
type accessOptions struct {
	*client
	streams genericiooptions.IOStreams
}

func newAccessOptions(streams genericiooptions.IOStreams) *accessOptions {
	return &accessOptions{client: newClient(streams.ErrOut), streams: streams}
}

func accessPath(namespace string, parts ...string) string {
	path := "/apis/" + access.SchemeGroupVersion.String()
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/accessrequests"
	for _, part := range parts {
		path += "/" + part
	}
	return path
}

func newAccessRequestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, term, wait := newAccessOptions(streams), Term{}, false
	spec := access.AccessRequestSpec{}
	cmd := &cobra.Command{
		Use:   "request RULE --for DURATION [--reason TEXT]",
		Short: "Ask for the role of an AccessRule in a namespace",
		Example: `  # Ask to be admin in prod for an hour, and wait until it is approved
  proviso access request prod-admin -n prod --for 1h --reason "INC-4711 disk full" --wait

  # Ask for one delete of one config map
  proviso access request prod-admin -n prod --for 10m --once --verb delete --resource configmaps --name settings`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			notBefore, notAfter, err := term.interval(time.Now())
			if err != nil {
				return err
			}
			if notAfter == nil {
				return fmt.Errorf("--for: say how long, such as --for 1h")
			}
			spec.RuleRef.Name, spec.NotBefore, spec.DurationSeconds = args[0], notBefore, int64(term.For/time.Second)
			return o.request(cmd.Context(), spec, wait)
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&term.For, "for", 0, "How long the role is wanted, such as 1h or 90m.")
	flags.StringVar(&term.From, "from", "", "When it is to begin: a time such as 2026-11-17T09:00:00Z, or +2h for in two hours. Default: with the last approval.")
	flags.StringVar(&spec.Reason, "reason", "", "Why, for those who approve and for the record.")
	flags.StringSliceVar(&spec.Verbs, "verb", nil, "Ask for these verbs only.")
	flags.StringSliceVar(&spec.ResourceKinds, "resource", nil, "Ask for these resources only, such as pods or deployments.apps.")
	flags.StringSliceVar(&spec.ResourceNames, "name", nil, "Ask for objects of these names only.")
	flags.BoolVar(&spec.Once, "once", false, "Ask for one write: the grant ends with it.")
	flags.BoolVar(&wait, "wait", false, "Wait until the request is decided, and exit 1 if it is denied.")
	return cmd
}

// request asks, and waits for the decision.
func (o *accessOptions) request(ctx context.Context, spec access.AccessRequestSpec, wait bool) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	verbflag.Warn(o.errOut, spec.Verbs...)
	r := &access.AccessRequest{TypeMeta: typeMeta(access.SchemeGroupVersion.String(), "AccessRequest"),
		ObjectMeta: metav1.ObjectMeta{GenerateName: spec.RuleRef.Name + "-", Namespace: namespace}, Spec: spec}
	if err := o.post(ctx, accessPath(namespace), r); err != nil {
		return err
	}
	if !wait {
		return o.show(r)
	}
	_, _ = terminal.Fprintf(o.streams.ErrOut, "%s is %s; waiting for a decision\n", requestName(r), r.Status.State)
	for r.Status.State == access.AccessPending {
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if err := o.get(ctx, accessPath(namespace, r.Name), nil, r); err != nil {
			return err
		}
	}
	if err := o.show(r); err != nil {
		return err
	}
	if r.Status.State != access.AccessActive && r.Status.State != access.AccessApproved {
		return fmt.Errorf("%s is %s%s", requestName(r), r.Status.State, why(r))
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func requestName(r *access.AccessRequest) string {
	return fmt.Sprintf("accessrequest %s -n %s", r.Name, r.Namespace)
}

// why returns the message of the decision on a request.
func why(r *access.AccessRequest) string {
	for _, c := range r.Status.Conditions {
		if c.Status == metav1.ConditionTrue && (c.Type == access.ConditionDenied || c.Type == access.ConditionEnded) {
			text := " (" + c.Reason
			if c.Message != "" {
				text += ", " + c.Message
			}
			return text + ")"
		}
	}
	return ""
}

// show prints the state of a request.
func (o *accessOptions) show(r *access.AccessRequest) error {
	switch {
	case o.format == "json" || o.format == "yaml":
		return o.print(o.streams.Out, r)
	case o.format == "name":
		_, err := terminal.Fprintf(o.streams.Out, "accessrequest.%s/%s\n", access.GroupName, r.Name)
		return err
	}
	text := fmt.Sprintf("%s is %s", requestName(r), r.Status.State)
	switch r.Status.State {
	case access.AccessActive:
		text += " until " + spellTime(r.Status.Until.Time)
	case access.AccessApproved:
		text += ", from " + spellTime(r.Status.From.Time) + " until " + spellTime(r.Status.Until.Time)
	default:
		text += why(r)
	}
	_, err := terminal.Fprintln(o.streams.Out, text)
	return err
}

func newAccessListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, everywhere, open := newAccessOptions(streams), false, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List requests: your own, or all that you may see",
		Example: `  # What waits for an approval, in all namespaces
  proviso access list -A --pending`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			all, err := o.requests(cmd.Context(), everywhere)
			if err != nil {
				return err
			}
			if open {
				all.Items = keepIf(all.Items, func(r *access.AccessRequest) bool { return r.Status.State == access.AccessPending })
			}
			return o.list(all)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "List the requests of all namespaces.")
	cmd.Flags().BoolVar(&open, "pending", false, "List only what waits for an approval.")
	return cmd
}

func keepIf(all []access.AccessRequest, wanted func(*access.AccessRequest) bool) []access.AccessRequest {
	kept := []access.AccessRequest{}
	for i := range all {
		if wanted(&all[i]) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

func (o *accessOptions) requests(ctx context.Context, everywhere bool) (*access.AccessRequestList, error) {
	namespace := ""
	if !everywhere {
		var err error
		if namespace, err = o.namespace(); err != nil {
			return nil, err
		}
	}
	all := &access.AccessRequestList{}
	return all, o.get(ctx, accessPath(namespace), nil, all)
}

func (o *accessOptions) list(all *access.AccessRequestList) error {
	switch {
	case o.format == "json" || o.format == "yaml":
		return o.print(o.streams.Out, all)
	case o.format == "name":
		for _, r := range all.Items {
			if _, err := terminal.Fprintf(o.streams.Out, "accessrequest.%s/%s\n", access.GroupName, r.Name); err != nil {
				return err
			}
		}
		return nil
	case len(all.Items) == 0:
		_, err := terminal.Fprintln(o.streams.Out, "There are no requests that you may see.")
		return err
	}
	return table(o.streams.Out, cutLines("yaml"), nil, func(w io.Writer) {
		_, _ = terminal.Fprintf(w, "NAMESPACE\tNAME\tRULE\tUSER\tSTATE\tFOR\tUNTIL\tREASON\n")
		for _, r := range all.Items {
			until := ""
			if r.Status.Until != nil {
				until = spellTime(r.Status.Until.Time)
			}
			_, _ = terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Namespace, r.Name, r.Spec.RuleRef.Name, r.Spec.Requester.Username, r.Status.State,
				time.Duration(r.Spec.DurationSeconds)*time.Second, until, r.Spec.Reason)
		}
	})
}
