// Command proviso-mcp is a server of the Model Context Protocol on standard input and output. Its tools query and
// change a cluster with a narrowed token: no argument of a tool can do what the flags do not allow (TK-9).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/terminal"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: terminal.Clean(os.Stdout), ErrOut: terminal.Clean(os.Stderr)}
	cmd, _ := newCommand(streams, &mcp.StdioTransport{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd.SetContext(ctx)
	os.Exit(cli.Execute(cmd, streams.ErrOut)) //nolint:gocritic // nothing is left to stop
}

// defaultAllow is what the tools can do by default: read what a wildcard covers, which does not include secrets.
const defaultAllow = "get,list,watch *"

// questionsAllow is what who_can asks. The user needs the right, too.
const questionsAllow = "create resourceaccessreviews.authorization.proviso.dev"

func newCommand(streams genericiooptions.IOStreams, transport mcp.Transport) (*cobra.Command, *access) {
	a := &access{}
	cmd := &cobra.Command{
		Use:   "proviso-mcp",
		Short: "Let an agent work on a cluster with a token that can do less than you",
		Long: `Speak the Model Context Protocol on standard input and output. The tools can_i, who_can, explain, plan, lint, get, list and apply
use a token that can do what --allow and --rules say, and nothing else: without them, read everything but secrets. The token is asked for
with your kubeconfig, at the start and again before it ends; it is in a file that only you can read, which is removed at the end.

The agent gets the answers, not the token. An agent that can run commands as you on this machine can still read your credentials: run
agents that you do not trust as another user, or in a container.`,
		Example: `  # Read everything but secrets
  proviso-mcp

  # Change the config maps of one namespace
  proviso-mcp --allow 'get,list,patch,create configmaps -n web' --description 'web agent'`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true, Version: buildinfo.Get().Version,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), a, transport) },
	}
	a.request = cli.NewTokenRequest(cmd, streams)
	cli.FailsWith(cmd, 1)
	cmd.AddCommand(newCallCommand(streams))
	return cmd, a
}

// serve gets the token and serves until the client disconnects.
func serve(ctx context.Context, a *access, transport mcp.Transport) error {
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	err := newTools(a).server().Run(ctx, transport)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was told to stop
	}
	return err
}
