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
		NewAccessCommand(streams),
		NewShadowCommand(streams),
		NewTokenCommand(streams),
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

// The groups in which the help of the program shows its commands.
const (
	groupRun, groupAsk, groupChange, groupWatch = "run", "ask", "change", "watch"
)

// Group groups the commands of a program by purpose. Commands without a group are shown last.
func Group(root *cobra.Command) {
	groups := map[string]string{
		"serve": groupRun, "sidecar": groupRun, "kubeconfig": groupRun, "backup": groupRun, "kubectl": groupRun,
		"who-can": groupAsk, "can-i": groupAsk, "explain": groupAsk, "matrix": groupAsk, "permissions": groupAsk, "explorer": groupAsk,
		"policy": groupChange, "token": groupChange, "access": groupChange, "plan": groupChange, "test": groupChange, "lint": groupChange, "suggest": groupChange, "dump": groupChange, "rollback": groupChange,
		"history": groupWatch, "shadow": groupWatch, "audit": groupWatch,
	}
	for _, group := range []*cobra.Group{{ID: groupRun, Title: "Run a server:"}, {ID: groupAsk, Title: "Ask who can do what, and why:"},
		{ID: groupChange, Title: "Change policy:"}, {ID: groupWatch, Title: "See what happened:"}} {
		for _, cmd := range root.Commands() {
			if groups[cmd.Name()] != group.ID {
				continue
			}
			if !root.ContainsGroup(group.ID) {
				root.AddGroup(group)
			}
			cmd.GroupID = group.ID
		}
	}
}
