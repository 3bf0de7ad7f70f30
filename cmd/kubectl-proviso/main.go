// Command kubectl-proviso is the kubectl plugin: the client commands of proviso without the weight of the server.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := &cobra.Command{
		Use:           "kubectl-proviso",
		Short:         "Ask a Proviso server who can do what, and why",
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl proviso"},
	}
	root.AddCommand(cli.Commands(streams)...)
	os.Exit(cli.Execute(root, streams.ErrOut))
}
