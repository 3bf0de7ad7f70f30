// Command proviso is a Kubernetes API server in which who may change what, under which condition, is fine-grained,
// visible before you act, and changeable at run time — and the tools to work with it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"

	documents "proviso.dev/proviso"
	provisocli "proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/docsite"
	"proviso.dev/proviso/internal/cli/etcdbackup"
	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/hosts/explorer"
	"proviso.dev/proviso/internal/hosts/sidecar"
	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/terminal"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: terminal.Clean(os.Stdout), ErrOut: terminal.Clean(os.Stderr)}
	// If run through a link with the name of another program, it is that program.
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "kubectl":
		os.Exit(runKubectl(os.Args[1:]))
	case "kube-apiserver":
		cmd, err := apiserver.NewKubeAPIServerCommand()
		if err != nil {
			os.Exit(fail(err))
		}
		os.Exit(cli.Run(cmd))
	case "kubectl-proviso":
		plugin := provisocli.NewPlugin(streams)
		addTools(plugin, streams)
		provisocli.Group(plugin)
		provisocli.Logging(plugin.Commands()...)
		os.Exit(provisocli.Execute(plugin, streams.ErrOut))
	}
	// kubectl parses its own command line, global flags included.
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(runKubectl(os.Args[2:]))
	}
	root, err := newCommand(streams)
	if err != nil {
		os.Exit(fail(err))
	}
	os.Exit(provisocli.Execute(root, streams.ErrOut))
}

func runKubectl(args []string) int {
	os.Args = append([]string{"kubectl"}, args...)
	return cli.Run(kubectl.NewDefaultKubectlCommand())
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "proviso: %v\n", err)
	return 1
}

func newCommand(streams genericiooptions.IOStreams) (*cobra.Command, error) {
	serve, err := apiserver.NewCommand()
	if err != nil {
		return nil, err
	}
	provisocli.FailsWith(serve, 1)
	beside := sidecar.NewCommand(streams, apiserver.Kinds)
	for _, cmd := range append(beside.Commands(), beside) {
		provisocli.FailsWith(cmd, 1)
	}
	var version bool
	root := &cobra.Command{
		Use:           "proviso",
		Short:         "A Kubernetes API server with conditional, visible, changeable authorization",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintln(streams.Out, buildinfo.Get())
				return err
			}
			return cmd.Help()
		},
	}
	// Kubernetes registers a flag of this name, with values of its own, for every program that links it, and cobra
	// would show it as a flag of every command.
	if theirs := pflag.CommandLine.Lookup("version"); theirs != nil {
		theirs.Hidden = true
	}
	root.Flags().BoolVar(&version, "version", false, "Print the versions of Proviso, of the Kubernetes inside and of Go.")
	root.AddCommand(
		serve,
		beside,
		provisocli.NewKubeconfigCommand(streams),
		etcdbackup.NewCommand(streams),
		// Only for the list of commands: main passes kubectl its command line unparsed.
		&cobra.Command{Use: "kubectl", Short: "The matching kubectl", DisableFlagParsing: true, Run: func(*cobra.Command, []string) {}},
	)
	root.AddCommand(provisocli.Commands(streams)...)
	addTools(root, streams)
	root.AddCommand(docsite.NewCommand(streams, documents.Documents), etcdbackup.NewFormerCommand(streams))
	provisocli.Group(root)
	provisocli.Logging(slices.DeleteFunc(slices.Clone(root.Commands()), func(cmd *cobra.Command) bool { return cmd == serve || cmd == beside })...)
	return root, nil
}

// addTools adds the commands that need no Proviso server, and the page that shows their output.
func addTools(root *cobra.Command, streams genericiooptions.IOStreams) {
	root.AddCommand(policytools.Commands(streams)...)
	root.AddCommand(explorer.NewCommand(streams, provisocli.Runner(provisocli.Commands, policytools.Keeping())))
}
