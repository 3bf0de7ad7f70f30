package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/platform/terminal"
)

// KubeconfigOptions are the flags of `proviso kubeconfig`.
type KubeconfigOptions struct {
	DataDir   string
	User      string
	Groups    []string
	TTL       time.Duration
	Server    string
	Namespace string
	Merge     bool
	Output    string
	Narrow    []string

	genericiooptions.IOStreams
}

// NewKubeconfigCommand returns `proviso kubeconfig`.
func NewKubeconfigCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &KubeconfigOptions{DataDir: "proviso-data", TTL: 24 * time.Hour, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "kubeconfig --user NAME [--group NAME ...]",
		Short: "Issue a client certificate from the server's own CA",
		Long: `Print a kubeconfig with a client certificate for the given user and groups, signed by the certificate authority in
the server's data directory. The certificate cannot be revoked before it expires: keep its lifetime short.

With --merge, the credentials are added to the kubeconfig that kubectl uses ($KUBECONFIG, or ~/.kube/config) as a context named
USER@proviso. Other entries and the current context do not change.`,
		Example: `  # Edgar, a member of team-a, for one day
  proviso kubeconfig --user edgar --group team-a > edgar.kubeconfig
  proviso kubectl --kubeconfig edgar.kubeconfig auth whoami

  # As a context of the kubeconfig that kubectl uses anyway
  proviso kubeconfig --user edgar --namespace hammer --merge
  kubectl --context edgar@proviso get pods

  # Another data directory, one hour, for clients that reach the server at another address
  proviso kubeconfig --data-dir /var/lib/proviso --user ci --ttl 1h --server https://api.example.com:6443 --out ci.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.Run() },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "The server's data directory.")
	fs.StringVar(&o.User, "user", "", "Name of the user. Required.")
	fs.StringArrayVar(&o.Groups, "group", nil, "A group of the user; may be repeated.")
	fs.DurationVar(&o.TTL, "ttl", o.TTL, "How long the certificate is valid.")
	fs.StringVar(&o.Server, "server", "", "URL of the server. Default: the one in the administrator's kubeconfig.")
	fs.StringArrayVar(&o.Narrow, "narrow", nil, "Write a narrowed token instead of the certificate, which can only do this: 'VERBS KINDS [-n NAMESPACES] [--name NAMES]'; may be repeated. The server must run with the feature gate NarrowedTokens, and the user be allowed to ask.")
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "Namespace of the context.")
	fs.BoolVar(&o.Merge, "merge", false, "Add the credentials to the kubeconfig that kubectl uses, or to the file of --out. Only its owner can read the file then.")
	fs.StringVar(&o.Output, "out", "", "File to write (mode 0600) instead of standard output.")
	fs.StringVarP(&o.Output, "output", "o", "", "The former name of --out.")
	_ = fs.MarkDeprecated("output", "use --out")
	_ = fs.MarkShorthandDeprecated("output", "use --out")
	return cmd
}

// Run issues and prints.
func (o *KubeconfigOptions) Run() error {
	if o.User == "" {
		return errors.New("name the user: --user NAME; for example: proviso kubeconfig --user edgar > edgar.kubeconfig")
	}
	if o.Server != "" {
		if u, err := url.Parse(o.Server); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--server %s: want a URL such as https://127.0.0.1:6443", o.Server)
		}
	}
	files, err := pki.Open(o.DataDir)
	if err != nil {
		return err
	}
	config, err := pki.IssueClient(files, pki.ClientRequest{User: o.User, Groups: o.Groups, TTL: o.TTL, Server: o.Server, Namespace: o.Namespace})
	if err != nil {
		return err
	}
	if len(o.Narrow) > 0 {
		if config, err = o.narrowed(config); err != nil {
			return err
		}
	}
	switch {
	case o.Merge:
		return o.merge(config)
	case o.Output == "":
		_, err = o.Out.Write(config)
		return err
	}
	return writePrivate(o.Output, config)
}

// narrowed asks for a token with the certificate of a kubeconfig, and is one with the token.
func (o *KubeconfigOptions) narrowed(certificate []byte) ([]byte, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(certificate)
	if err != nil {
		return nil, err
	}
	rules, err := (&tokenRules{allow: o.Narrow}).build(nil, o.ErrOut)
	if err != nil {
		return nil, fmt.Errorf("--narrow: %w", err)
	}
	seconds := int64(o.TTL / time.Second)
	status, err := request(context.Background(), config, o.ErrOut, accessv1alpha1.NarrowedTokenSpec{Rules: rules, ExpirationSeconds: &seconds})
	if err != nil {
		return nil, err
	}
	return tokenKubeconfig(config, status.Token, o.Namespace)
}

// merge adds the entries to the kubeconfig that kubectl uses. An entry of the same name is replaced: it is of the same
// user.
func (o *KubeconfigOptions) merge(data []byte) error {
	added, err := clientcmd.Load(data)
	if err != nil {
		return err
	}
	path := clientcmd.NewDefaultPathOptions()
	if o.Output != "" {
		path.LoadingRules.ExplicitPath = o.Output
	}
	config, err := path.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("--merge: %w", err)
	}
	for name, cluster := range added.Clusters {
		config.Clusters[name] = cluster
	}
	for name, user := range added.AuthInfos {
		config.AuthInfos[name] = user
	}
	for name, context := range added.Contexts {
		config.Contexts[name] = context
	}
	if config.CurrentContext == "" {
		config.CurrentContext = added.CurrentContext
	}
	file := path.GetDefaultFilename()
	if err := makePrivate(file, o.ErrOut); err != nil { // before the credentials are in it
		return fmt.Errorf("--merge: %w", err)
	}
	if err := clientcmd.ModifyConfig(path, *config, true); err != nil {
		return fmt.Errorf("--merge: %w", err)
	}
	terminal.Fprintf(o.ErrOut, "Added context %q to %s. Use it with: kubectl --context %[1]s …, or: kubectl config use-context %[1]s\n", added.CurrentContext, file)
	return nil
}

// makePrivate takes the file that credentials are added to away from others. It may be a link that the user has made,
// so it is not replaced.
func makePrivate(file string, errOut io.Writer) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if err := os.Chmod(file, info.Mode().Perm()&^0o077); err != nil {
		return err
	}
	terminal.Fprintf(errOut, "Warning: others could read or write %s; now only its owner can, since it has a private key or a token.\n", file)
	return nil
}
