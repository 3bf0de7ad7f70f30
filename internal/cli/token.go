package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/platform/terminal"
)

// NewTokenCommand returns `proviso token`.
func NewTokenCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Narrow your credential for an agent, a script or a pipeline",
		Long: `Ask for tokens that can do less than you, and narrow them further without a server. A request with a narrowed token is allowed only if
you may make it and every link of the token allows it. A holder can add a link, and nobody can take one away.

A wildcard never covers what can be turned into more rights: secrets, workloads, exec, impersonation, tokens of service accounts, roles.
To allow one of these, name the verb and the resource.

The server needs the feature gate NarrowedTokens, and you the right to create narrowedtokens.access.proviso.dev.`,
	}
	cmd.AddCommand(newTokenRequestCommand(streams), newTokenRunCommand(streams), newTokenAttenuateCommand(streams), newTokenInspectCommand(streams), newTokenListCommand(streams), newTokenRevokeCommand(streams))
	return cmd
}

// tokenClient asks a server for tokens. A token is never an argument: others can read the list of processes.
type tokenClient struct {
	config *genericclioptions.ConfigFlags
	errOut io.Writer
}

func newTokenClient(errOut io.Writer) *tokenClient {
	flags := genericclioptions.NewConfigFlags(true)
	flags.BearerToken = nil
	return &tokenClient{flags, errOut}
}

func (c *tokenClient) addFlags(cmd *cobra.Command) { c.config.AddFlags(cmd.Flags()) }

// tokenPath and revocationPath are where tokens are asked for and revoked.
var (
	tokenPath      = "/apis/" + accessv1alpha1.SchemeGroupVersion.String() + "/narrowedtokens"
	revocationPath = "/apis/" + accessv1alpha1.SchemeGroupVersion.String() + "/tokenrevocations"
)

// request asks for a token with the credential of the configuration.
func request(ctx context.Context, config *rest.Config, errOut io.Writer, spec accessv1alpha1.NarrowedTokenSpec) (accessv1alpha1.NarrowedTokenStatus, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	rc, err := connectTo(config)
	if err != nil {
		return accessv1alpha1.NarrowedTokenStatus{}, err
	}
	question := &accessv1alpha1.NarrowedToken{Spec: spec}
	question.APIVersion, question.Kind = accessv1alpha1.SchemeGroupVersion.String(), "NarrowedToken"
	if err := postTo(ctx, rc, tokenPath, question); err != nil {
		return question.Status, noTokens(err)
	}
	return question.Status, nil
}

// noTokens says why a server has no narrowed tokens.
func noTokens(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("this server has no narrowed tokens: it needs the feature gate NarrowedTokens, and beside a stock kube-apiserver there are none")
	}
	return err
}

// TokenRequestOptions are the flags of `proviso token request`.
type TokenRequestOptions struct {
	*tokenClient
	tokenRules
	For      time.Duration
	Audience string
	Grants   bool
	Out      string

	genericiooptions.IOStreams
}

// NewTokenRequest adds the flags that say what a token can do to a command.
func NewTokenRequest(cmd *cobra.Command, streams genericiooptions.IOStreams) *TokenRequestOptions {
	o := &TokenRequestOptions{tokenClient: newTokenClient(streams.ErrOut), IOStreams: streams}
	o.addFlags(cmd)
	return o
}

// Allow adds to what the token can do, as --allow does.
func (o *TokenRequestOptions) Allow(texts ...string) { o.allow = append(o.allow, texts...) }

// Given reports whether the flags say what the token can do.
func (o *TokenRequestOptions) Given() bool { return len(o.allow) > 0 || o.file != "" }

func (o *TokenRequestOptions) addFlags(cmd *cobra.Command) {
	o.tokenClient.addFlags(cmd)
	o.tokenRules.addFlags(cmd)
	fs := cmd.Flags()
	fs.DurationVar(&o.For, "for", time.Hour, "How long the token lives. It never lives longer than your credential, nor than the server allows.")
	fs.BoolVar(&o.Grants, "include-grants", false, "Let the token use what was granted to you by access requests.")
}

func newTokenRequestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenRequestOptions{tokenClient: newTokenClient(streams.ErrOut), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "request --allow 'VERBS KINDS [-n NAMESPACES]'",
		Short: "Ask for a token that can do less than you",
		Long: `Ask the server for a token for yourself that can do only what --allow and --rules say, and print it. Anyone who has the token can use it
until it expires: keep it like a password.`,
		Example: `  # Read pods and deployments of namespace web for 20 minutes
  proviso token request --allow 'get,list,watch pods,deployments.apps -n web' --for 20m --description 'build agent' > token

  # Set the images of two deployments
  proviso token request --allow 'get,patch deployments.apps -n web --name api,worker' --for 10m --out ci.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.Audience, "audience", "", "Who, besides the server, may confirm the token by a TokenReview that names it.")
	cmd.Flags().StringVar(&o.Out, "out", "", "File to write the token to (mode 0600) instead of standard output.")
	return cmd
}

// issue asks for the token of the flags.
func (o *TokenRequestOptions) issue(ctx context.Context) (accessv1alpha1.NarrowedTokenStatus, error) {
	var none accessv1alpha1.NarrowedTokenStatus
	rules, err := o.build(o.In, o.ErrOut)
	if err != nil {
		return none, err
	}
	seconds := int64(o.For / time.Second)
	if seconds <= 0 {
		return none, fmt.Errorf("--for %s: want a time such as 20m", o.For)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return none, err
	}
	return request(ctx, config, o.errOut, accessv1alpha1.NarrowedTokenSpec{Rules: rules, ExpirationSeconds: &seconds, Audience: o.Audience, Description: o.description, IncludeGrants: o.Grants})
}

// Run asks and prints.
func (o *TokenRequestOptions) Run(ctx context.Context) error {
	status, err := o.issue(ctx)
	if err != nil {
		return err
	}
	terminal.Fprintf(o.ErrOut, "Token %s ends at %s.\n", status.ID, status.ExpirationTimestamp.UTC().Format(time.RFC3339))
	return writeToken(o.Out, o.IOStreams.Out, status.Token)
}

// writeToken prints a token, or writes it to a file that only its owner can read.
func writeToken(file string, out io.Writer, token string) error {
	if file == "" {
		terminal.Fprintf(out, "%s\n", token)
		return nil
	}
	return writePrivate(file, []byte(token+"\n"))
}

// writePrivate writes the file of --out so only its owner can read it, even if others could read the old one. A device
// or a pipe would be replaced, too, so it is refused.
func writePrivate(file string, text []byte) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--out %s: this is not a regular file; leave --out away to write to standard output", file)
	}
	if err := atomicfile.Replace(file, text, atomicfile.Options{}); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// envToken is the environment variable that commands take a token from.
const envToken = "PROVISO_TOKEN" //nolint:gosec // the name of a variable

// readToken reads a token from a file, the environment or standard input, and never from an argument.
func readToken(file string, in io.Reader) (string, error) {
	var text []byte
	var err error
	switch {
	case file == "" && os.Getenv(envToken) != "":
		return strings.TrimSpace(os.Getenv(envToken)), nil
	case file == "" || file == "-":
		text, err = io.ReadAll(io.LimitReader(in, 1<<20))
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("give the token by --token-file, $%s or standard input", envToken)
	}
	return token, nil
}
