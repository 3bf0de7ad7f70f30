package explorer

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/platform/buildinfo"
)

// Options are the flags of `proviso explorer`.
type Options struct {
	PrintURL   bool
	ReadOnly   bool
	AllowApply bool
	Port       int

	run    Run
	config *genericclioptions.ConfigFlags
	// connection are the flags of config.
	connection *pflag.FlagSet
	genericiooptions.IOStreams
}

// NewCommand returns `proviso explorer`, whose screens run commands.
func NewCommand(streams genericiooptions.IOStreams, run Run) *cobra.Command {
	o := &Options{IOStreams: streams, ReadOnly: true, run: run, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "explorer",
		Short: "Open a page that shows who can do what, why, and what would change",
		Long: `Open a page in the browser that shows who can do what, why, and what would change. It runs on this machine, listens on 127.0.0.1
only, acts as the user of the kubeconfig, and loads nothing from the network. Every screen names the command that gives the same answer
in a terminal, and has an address that any other explorer opens.

The printed address works once. The page can be used until the program ends, for twelve hours at most. It is read-only; with
--allow-apply it can apply a policy change, as you, after showing the plan.

On another machine, print the address and forward the port:  ssh -L PORT:127.0.0.1:PORT MACHINE

Exit code 0 after Ctrl-C, 3 if it could not start.`,
		Example: `  # Open the page
  proviso explorer

  # On a machine without a browser
  proviso explorer --print-url

  # On a port that is forwarded
  proviso explorer --print-url --port 8080

  # As another user of the kubeconfig, and with the right to apply what was planned
  proviso explorer --context hubert@proviso --allow-apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.AllowApply && cmd.Flags().Changed("read-only") && o.ReadOnly {
				return errors.New("--read-only and --allow-apply are mutually exclusive")
			}
			if !o.ReadOnly && !o.AllowApply {
				return errors.New("--read-only=false changes nothing by itself; to let the page apply changes, use --allow-apply")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return o.Serve(ctx)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *Options) addFlags(fs *pflag.FlagSet) {
	o.config.AddFlags(fs)
	o.connection = pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.VisitAll(o.connection.AddFlag)
	fs.BoolVar(&o.PrintURL, "print-url", false, "Print the address on standard output instead of opening a browser.")
	fs.BoolVar(&o.ReadOnly, "read-only", o.ReadOnly, "Do not allow changes. This is the default.")
	fs.IntVar(&o.Port, "port", 0, "Port to listen on. Default: any free port.")
	fs.BoolVar(&o.AllowApply, "allow-apply", false, "Allow the page to apply a change after showing the plan.")
}

// Serve serves the page until the context ends.
func (o *Options) Serve(ctx context.Context) error {
	cfg, err := o.complete()
	if err != nil {
		return err
	}
	handler, token, err := New(cfg)
	if err != nil {
		return err
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d: want a port, or 0 for any free port", o.Port)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(o.Port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", o.Port, err)
	}
	if err := answers(ctx, cfg.Rest); err != nil {
		fmt.Fprintf(o.ErrOut, "Warning: the server at %s does not answer: %v. The page reports this until it does.\n", cfg.Rest.Host, err)
	}
	url := fmt.Sprintf("http://%s/?token=%s", listener.Addr(), token)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	if o.PrintURL {
		_, err = fmt.Fprintln(o.Out, url)
	} else {
		fmt.Fprintf(o.ErrOut, "The explorer is at %s\nThe address works once. Ctrl-C ends the explorer.\n", url)
		if page, err := redirect(url); err == nil {
			defer os.Remove(page) //nolint:errcheck // it is of no use any more
			open(ctx, page)
		}
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-done:
		}
	}
	_ = server.Close() // streams have no end of their own
	return err
}

func (o *Options) complete() (Config, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return Config{}, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	config.WarningHandler = rest.NoWarnings{}
	loader := o.config.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return Config{}, err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Run: o.run, Rest: config, Namespace: namespace, Context: raw.CurrentContext, AllowApply: o.AllowApply, Version: buildinfo.Get().Version}
	o.connection.VisitAll(func(flag *pflag.Flag) {
		switch values, several := flag.Value.(pflag.SliceValue); {
		case !flag.Changed || flag.Name == "namespace": // screens ask about namespaces of their own
		case several:
			for _, value := range values.GetSlice() {
				cfg.Identity = append(cfg.Identity, "--"+flag.Name+"="+value)
			}
		default:
			cfg.Identity = append(cfg.Identity, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	if *o.config.Context != "" {
		cfg.Context = *o.config.Context
	}
	return cfg, nil
}

// answers asks the server for anything at all. That it refuses is an answer.
func answers(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Timeout = 3 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code > 0 {
		return nil
	}
	return err
}

// redirect writes a page that only this user can read and that leads to the address. The arguments of a program can be
// read by every user of the machine, so the address must not be one.
func redirect(url string) (string, error) {
	file, err := os.CreateTemp("", "proviso-explorer-*.html") // with mode 0600
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(file, "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=%s\"><title>Proviso</title>\n", html.EscapeString(url))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// open opens a page in the user's browser. If there is none, the address was printed.
func open(ctx context.Context, url string) {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	_ = exec.CommandContext(ctx, name, args...).Start() //nolint:gosec // one of three programs, with an address of ours
}
