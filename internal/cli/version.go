package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/terminal"
)

// NewVersionCommand returns `proviso version`.
func NewVersionCommand(streams genericiooptions.IOStreams) *cobra.Command {
	out := output{format: "line", formats: []string{"line", "json", "yaml"}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Proviso, of the Kubernetes inside and of Go",
		Example: `  proviso version
  proviso version -o json | jq -r .kubernetes`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			if out.format == "line" {
				_, err := terminal.Fprintln(streams.Out, buildinfo.Get())
				return err
			}
			return out.print(streams.Out, buildinfo.Get())
		},
	}
	out.addFlag(cmd)
	return cmd
}
