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
		NewAuditCommand(streams),
	}
}
