package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/pki"
)

// KubeconfigOptions are the flags of `proviso kubeconfig`.
type KubeconfigOptions struct {
	DataDir string
	User    string
	Groups  []string
	TTL     time.Duration
	Output  string

	genericiooptions.IOStreams
}

// NewKubeconfigCommand returns `proviso kubeconfig`.
func NewKubeconfigCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &KubeconfigOptions{DataDir: "proviso-data", TTL: 24 * time.Hour, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "kubeconfig --user NAME [--group NAME ...]",
		Short: "Issue a client certificate from the server's own CA",
		Long: `Print a kubeconfig with a client certificate for the given user and groups, signed by the certificate authority in
the server's data directory. The certificate expires and cannot be revoked before: keep its life short.`,
		Example: `  # Edgar, a member of team-a, for one day
  proviso kubeconfig --user edgar --group team-a > edgar.kubeconfig
  proviso kubectl --kubeconfig edgar.kubeconfig auth whoami

  # Another data directory, one hour
  proviso kubeconfig --data-dir /var/lib/proviso --user ci --ttl 1h -o ci.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.Run() },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "The server's data directory.")
	fs.StringVar(&o.User, "user", "", "Name of the user. Required.")
	fs.StringArrayVar(&o.Groups, "group", nil, "A group of the user; may be repeated.")
	fs.DurationVar(&o.TTL, "ttl", o.TTL, "How long the certificate is valid.")
	fs.StringVarP(&o.Output, "output", "o", "", "File to write (mode 0600) instead of standard output.")
	_ = cmd.MarkFlagRequired("user")
	return cmd
}

// Run issues and prints.
func (o *KubeconfigOptions) Run() error {
	files, err := pki.Open(o.DataDir)
	if err != nil {
		return err
	}
	config, err := pki.IssueClient(files, pki.ClientRequest{User: o.User, Groups: o.Groups, TTL: o.TTL})
	if err != nil {
		return err
	}
	if o.Output == "" {
		_, err = o.Out.Write(config)
		return err
	}
	if err := os.WriteFile(o.Output, config, 0o600); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}
