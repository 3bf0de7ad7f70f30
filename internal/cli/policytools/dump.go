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
		Long: `Write everything the decisions of a server depend on to one file, for --from of plan and the other tools: Policy, RBAC, field
permissions, protected attributes, audit sinks and classes, namespaces, custom resource definitions and served resources. The file
contains no secrets, no managed fields and no addresses of audit sinks.

You need the right to list each of these in all namespaces. If one right is missing, the command names it and writes nothing.`,
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
				data, err := d.YAML()
				if err != nil {
					return err
				}
				text, err := terminal.YAML(data)
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
