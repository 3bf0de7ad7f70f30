// Command kubectl-proviso is the kubectl plugin: the client commands of proviso without the weight of the server.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(cli.Execute(cli.NewPlugin(streams), streams.ErrOut))
}
