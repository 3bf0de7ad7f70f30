package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/platform/terminal"
)

// TokenRevokeOptions are the flags of `proviso token revoke`.
type TokenRevokeOptions struct {
	*tokenClient
	Users     []string
	TokenFile string

	genericiooptions.IOStreams
}

func newTokenRevokeCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenRevokeOptions{tokenClient: newTokenClient(streams.ErrOut), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "revoke [ID ...] [--user-name NAME ...]",
		Short: "End narrowed tokens before their time",
		Long: `Revoke the tokens with these IDs, or all tokens that were issued to users until now. Tokens that were requested with a revoked token end
with it. You need the right to create tokenrevocations.access.proviso.dev. With --token-file, a token revokes itself, which needs no
right.`,
		Example: `  # A token, by the id that it was issued with
  proviso token revoke 3f2a90c41d5b6e7788990a1b2c3d4e5f

  # All tokens of a user
  proviso token revoke --user-name edgar

  # The token itself
  proviso token revoke --token-file token`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&o.Users, "user-name", nil, "A user, all of whose tokens end; may be repeated.")
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "File with the token that revokes itself; - is standard input.")
	return cmd
}

// Run revokes.
func (o *TokenRevokeOptions) Run(ctx context.Context, ids []string) error {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return err
	}
	if o.TokenFile != "" {
		if len(ids) > 0 || len(o.Users) > 0 {
			return errors.New("--token-file revokes that token, and nothing else")
		}
		token, err := readToken(o.TokenFile, o.In)
		if err != nil {
			return err
		}
		read, err := narrowedtoken.Inspect(token)
		if err != nil {
			return err
		}
		if err := revokeOwn(ctx, config, token, read.Payload.ID); err != nil {
			return err
		}
		terminal.Fprintf(o.Out, "Token %s is revoked.\n", read.Payload.ID)
		return nil
	}
	if len(ids) == 0 && len(o.Users) == 0 {
		return errors.New("say what to revoke: the id of a token, --user-name NAME, or --token-file FILE")
	}
	if err := revoke(ctx, config, accessv1alpha1.TokenRevocationSpec{TokenIDs: ids, UserNames: o.Users}); err != nil {
		return err
	}
	terminal.Fprintf(o.Out, "Revoked: tokens that were issued until %s.\n", time.Now().UTC().Format(time.RFC3339))
	return nil
}

// revokeOwn lets a token revoke itself.
func revokeOwn(ctx context.Context, config *rest.Config, token, id string) error {
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = token
	return revoke(ctx, own, accessv1alpha1.TokenRevocationSpec{TokenIDs: []string{id}})
}

func revoke(ctx context.Context, config *rest.Config, spec accessv1alpha1.TokenRevocationSpec) error {
	rc, err := connectTo(config)
	if err != nil {
		return err
	}
	r := accessv1alpha1.TokenRevocation{TypeMeta: metav1.TypeMeta{APIVersion: accessv1alpha1.SchemeGroupVersion.String(), Kind: "TokenRevocation"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "revoked-"}, Spec: spec}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	answer, err := rc.Post().AbsPath(revocationPath).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	return noTokens(decodeStatus(answer, err))
}
