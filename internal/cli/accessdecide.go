package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// newDecisionCommand returns `proviso access approve` or `deny`.
func newDecisionCommand(streams genericiooptions.IOStreams, verb string, said access.AccessVerdict) *cobra.Command {
	o, comment, uid := newAccessOptions(streams), "", ""
	short := "Approve a request of another user"
	if said == access.Deny {
		short = "Deny a request of another user"
	}
	cmd := &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: fmt.Sprintf("  proviso access %s prod-admin-x7k2p -n prod --comment \"seen, go ahead\"", verb),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.decide(cmd.Context(), args[0], "approval", uid, said, comment)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&comment, "comment", "", "What is kept with the decision.")
	cmd.Flags().StringVar(&uid, "uid", "", "The uid of the request that you looked at. Default: that of the request of this name.")
	return cmd
}

// decide says yes or no to a request, or ends it.
func (o *accessOptions) decide(ctx context.Context, name, subresource, uid string, said access.AccessVerdict, comment string) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	return o.decideIn(ctx, namespace, name, subresource, uid, said, comment)
}

func (o *accessOptions) decideIn(ctx context.Context, namespace, name, subresource, uid string, said access.AccessVerdict, comment string) error {
	r := &access.AccessRequest{}
	if uid == "" {
		if err := o.get(ctx, accessPath(namespace, name), nil, r); err != nil {
			return fmt.Errorf("%w; give --uid if you may not read the request", err)
		}
		uid = string(r.UID)
	}
	answer, err := o.say(ctx, accessPath(namespace, name, subresource), uid, said, comment)
	if err != nil {
		return err
	}
	return o.show(answer)
}

// say posts a decision; the answer is the request.
func (o *accessOptions) say(ctx context.Context, path, uid string, said access.AccessVerdict, comment string) (*access.AccessRequest, error) {
	rc, err := o.connect()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(&access.AccessDecision{TypeMeta: typeMeta(access.SchemeGroupVersion.String(), "AccessDecision"), RequestUID: types.UID(uid), Decision: said, Comment: comment})
	if err != nil {
		return nil, err
	}
	data, err := rc.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return nil, decodeStatus(data, err)
	}
	answer := &access.AccessRequest{}
	return answer, json.Unmarshal(data, answer)
}

func newAccessRevokeCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, comment, uid, user, all := newAccessOptions(streams), "", "", "", false
	cmd := &cobra.Command{
		Use:   "revoke (NAME | --user USER | --all)",
		Short: "End a request, or all of a user, or all there are",
		Example: `  proviso access revoke prod-admin-x7k2p -n prod

  # End everything that alice asked for or was granted, in all namespaces
  proviso access revoke --user alice`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && user == "" && !all {
				return o.decide(cmd.Context(), args[0], "revocation", uid, "", comment)
			}
			if len(args) == 1 || (user != "") == all {
				return errors.New("name one request, or give --user or --all")
			}
			return o.revokeAll(cmd.Context(), user, comment)
		},
	}
	o.config.AuthInfoName = nil // --user is whose requests end
	o.addFlags(cmd)
	cmd.Flags().StringVar(&comment, "comment", "", "What is kept with the decision.")
	cmd.Flags().StringVar(&uid, "uid", "", "The uid of the request that you looked at. Default: that of the request of this name.")
	cmd.Flags().StringVar(&user, "user", "", "End all requests of this user, in all namespaces.")
	cmd.Flags().BoolVar(&all, "all", false, "End all requests of everybody, in all namespaces.")
	return cmd
}

// revokeAll ends all active requests, of one user or of all users. It continues after an error.
func (o *accessOptions) revokeAll(ctx context.Context, user, comment string) error {
	requests, err := o.requests(ctx, true)
	if err != nil {
		return err
	}
	var errs []error
	n := 0
	for _, r := range requests.Items {
		over := r.Status.State == access.AccessEnded || r.Status.State == access.AccessDenied
		if over || user != "" && r.Spec.Requester.Username != user {
			continue
		}
		n++
		if err := o.decideIn(ctx, r.Namespace, r.Name, "revocation", string(r.UID), "", comment); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", requestName(&r), err))
		}
	}
	if n == 0 {
		_, err := terminal.Fprintln(o.streams.Out, "Nothing is open.")
		return err
	}
	return errors.Join(errs...)
}
