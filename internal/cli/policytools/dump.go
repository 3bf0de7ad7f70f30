package policytools

import (
	"bufio"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/terminal"
)

// NewDumpCommand returns `proviso dump`.
func NewDumpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o origin
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Write the policy of a server to standard output, for tools that work on files",
		Long: `Write all that a server decides by, as one file that --from of plan and of the other tools reads: Policy, RBAC, field permissions, protected
attributes, audit sinks and classes, namespaces, custom resource definitions, and what is served. Nothing secret is among it: no secrets, no
managed fields, and not the addresses of audit sinks.

It needs the right to list each of these in all namespaces, and says which of them is missing. Nothing is written if one is.`,
		Example: `  # What would a change do to the cluster? Once with the server, later without it
  proviso dump > cluster.yaml
  proviso plan --from cluster.yaml -f change.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := o.read(cmd.Context())
			if err != nil {
				return err
			}
			out := bufio.NewWriter(streams.Out)
			for _, d := range documents {
				text, err := d.YAML()
				if err != nil {
					return err
				}
				terminal.Fprintf(out, "---\n%s", text)
			}
			return out.Flush()
		},
	}
	o.addServer(cmd.Flags())
	return cmd
}
