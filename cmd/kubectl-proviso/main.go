// Command kubectl-proviso is the kubectl plugin: the client commands of proviso without the weight of the server.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/explorer"
	"proviso.dev/proviso/internal/tools"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	plugin := cli.NewPlugin(streams)
	plugin.AddCommand(tools.Commands(streams)...)
	plugin.AddCommand(explorer.NewCommand(streams, cli.Runner(cli.Commands, tools.Keeping())))
	os.Exit(cli.Execute(plugin, streams.ErrOut))
}
