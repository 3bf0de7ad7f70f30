// Command proviso is a Kubernetes API server in which who may change what, under which condition, is fine-grained,
// visible before you act, and changeable at run time — and the tools to work with it.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	utilversion "k8s.io/component-base/version"
	kubectl "k8s.io/kubectl/pkg/cmd"

	provisocli "proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/server"
)

func main() {
	// kubectl parses its own command line, global flags included.
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Args = append([]string{"kubectl"}, os.Args[2:]...)
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	}
	root, err := newCommand()
	if err != nil {
		fmt.Fprintf(os.Stderr, "proviso: %v\n", err)
		os.Exit(1)
	}
	os.Exit(provisocli.Execute(root, os.Stderr))
}

func newCommand() (*cobra.Command, error) {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	serve, err := server.NewCommand()
	if err != nil {
		return nil, err
	}
	root := &cobra.Command{
		Use:           "proviso",
		Short:         "A Kubernetes API server with conditional, visible, changeable authorization",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       utilversion.Get().GitVersion,
	}
	root.SetVersionTemplate("proviso on Kubernetes {{.Version}}\n")
	root.AddCommand(
		serve,
		provisocli.NewKubeconfigCommand(streams),
		// Only for the list of commands: main hands kubectl its command line unparsed.
		&cobra.Command{Use: "kubectl", Short: "The matching kubectl", DisableFlagParsing: true, Run: func(*cobra.Command, []string) {}},
	)
	root.AddCommand(provisocli.Commands(streams)...)
	return root, nil
}
