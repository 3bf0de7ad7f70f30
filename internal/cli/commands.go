package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Commands are the client commands: those that only need a server to talk to.
func Commands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{
		NewWhoCanCommand(streams),
		NewCanICommand(streams),
		NewExplainCommand(streams),
		NewPermissionsCommand(streams),
		NewPolicyCommand(streams),
		NewShadowCommand(streams),
		NewAuditCommand(streams),
		NewVersionCommand(streams),
	}
}

// NewPlugin returns the client commands as a plugin of kubectl.
func NewPlugin(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-proviso",
		Short:         "Ask a Proviso server who can do what, and why",
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl proviso"},
	}
	root.AddCommand(Commands(streams)...)
	return root
}
