package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/terminal"
)

// newCallCommand returns `proviso-mcp call`.
func newCallCommand(streams genericiooptions.IOStreams) *cobra.Command {
	a := &access{}
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGUMENTS]",
		Short: "Call one tool as an agent would, and print the answer",
		Long:  "Call one tool with arguments as a JSON object, with a token of the same flags, and print what an agent would get.",
		Example: `  # What does an agent without flags get?
  proviso-mcp call list '{"resource": "secrets", "namespace": "web"}'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := map[string]any{}
			if len(args) == 2 {
				if err := json.Unmarshal([]byte(args[1]), &arguments); err != nil {
					return fmt.Errorf("arguments: want a JSON object: %w", err)
				}
			}
			return call(cmd.Context(), a, streams.Out, args[0], arguments)
		},
	}
	a.request = cli.NewTokenRequest(cmd, streams)
	cli.FailsWith(cmd, 1)
	return cmd
}

// call makes one call to the server, as its client.
func call(ctx context.Context, a *access, out io.Writer, tool string, arguments map[string]any) error {
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := newTools(a).server().Connect(ctx, theirs, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	result, err := answer(ctx, ours, tool, arguments)
	if err != nil {
		return err
	}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			terminal.Fprintln(out, terminal.Lines(text.Text))
		}
	}
	if result.IsError {
		return errors.New("the tool failed")
	}
	return nil
}

func answer(ctx context.Context, transport mcp.Transport, tool string, arguments map[string]any) (*mcp.CallToolResult, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "proviso-mcp", Version: buildinfo.Get().Version}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	return session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
}
