// Command kubectl-proviso is the kubectl plugin: the client commands of proviso without the weight of the server.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/hosts/explorer"
	"proviso.dev/proviso/internal/platform/terminal"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: terminal.Clean(os.Stdout), ErrOut: terminal.Clean(os.Stderr)}
	plugin := cli.NewPlugin(streams)
	plugin.AddCommand(policytools.Commands(streams)...)
	plugin.AddCommand(explorer.NewCommand(streams, cli.Runner(cli.Commands, policytools.Keeping())))
	cli.Group(plugin)
	cli.Logging(plugin.Commands()...)
	os.Exit(cli.Execute(plugin, streams.ErrOut))
}
