package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Runner returns what runs one of the commands in this process, with streams of its own, and returns its exit code. The
// explorer's screens are made of it.
func Runner(commands ...func(genericiooptions.IOStreams) []*cobra.Command) func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
		root := &cobra.Command{Use: "proviso", SilenceUsage: true, SilenceErrors: true}
		for _, list := range commands {
			root.AddCommand(list(genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut})...)
		}
		root.SetArgs(args)
		root.SetContext(ctx)
		root.SetIn(in)
		root.SetOut(out)
		root.SetErr(errOut)
		return Execute(root, errOut)
	}
}
