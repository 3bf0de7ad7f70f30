package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// TokenRunOptions are the flags of `proviso token run`.
type TokenRunOptions struct {
	TokenRequestOptions
	Revoke bool
}

func newTokenRunCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenRunOptions{TokenRequestOptions: TokenRequestOptions{tokenClient: newTokenClient(streams.ErrOut), IOStreams: streams}}
	cmd := &cobra.Command{
		Use:   "run --allow 'VERBS KINDS [-n NAMESPACES]' -- COMMAND [ARGS ...]",
		Short: "Run a command with a token that can do less than you",
		Long: `Ask for a token, write a kubeconfig that has this token and no other credential (mode 0600), run the command with $KUBECONFIG set to it, and
remove the file when the command ends. The exit code is that of the command.

The command runs as you on this machine. It can still read your other credentials, such as ~/.kube/config: run programs
that you do not trust as another user, or in a container.`,
		Example: `  # An agent that reads pods and deployments of namespace web, for 20 minutes
  proviso token run --allow 'get,list,watch pods,deployments.apps -n web' --for 20m -- my-agent

  # The same for kubectl
  proviso token run --allow 'get,list pods -n web' -- kubectl get pods -n web`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.Revoke, "revoke", false, "Revoke the token when the command ends.")
	return cmd
}

// commandError is the exit code of a command that was run; it has spoken for itself.
type commandError int

func (commandError) Error() string   { return "" }
func (c commandError) ExitCode() int { return int(c) }

// Run asks, runs and cleans up.
func (o *TokenRunOptions) Run(ctx context.Context, args []string) error {
	text, status, err := o.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "proviso-token-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	terminal.Fprintf(o.ErrOut, "Token %s ends at %s.\n", status.ID, status.ExpirationTimestamp.UTC().Format(time.RFC3339))
	err = o.command(file, args)
	if o.Revoke {
		if failed := o.End(ctx, status); failed != nil {
			terminal.Fprintf(o.ErrOut, "proviso: the token was not revoked: %s\n", failed)
		}
	}
	return err
}

// Kubeconfig asks for a token and returns a kubeconfig that has no other credential.
func (o *TokenRequestOptions) Kubeconfig(ctx context.Context) (text []byte, status accessv1alpha1.NarrowedTokenStatus, err error) {
	status, err = o.issue(ctx)
	if err != nil {
		return nil, status, err
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, status, err
	}
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, status, err
	}
	text, err = tokenKubeconfig(config, status.Token, namespace)
	return text, status, err
}

// End revokes a token.
func (o *TokenRequestOptions) End(ctx context.Context, status accessv1alpha1.NarrowedTokenStatus) error {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return err
	}
	return revokeOwn(ctx, config, status.Token, status.ID)
}

// command runs the command. Signals go to it, and it decides when to end.
func (o *TokenRunOptions) command(kubeconfig string, args []string) error {
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // it is what the user asks for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.In, o.IOStreams.Out, o.ErrOut
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return commandError(max(ended.ExitCode(), 1))
	}
	return err
}

// tokenKubeconfig is a kubeconfig for the server of a configuration, with a token and no other credential.
func tokenKubeconfig(config *rest.Config, token, namespace string) ([]byte, error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	const name = "narrowed"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host + config.APIPath, CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure, TLSServerName: config.ServerName,
	}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}
