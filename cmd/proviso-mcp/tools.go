package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/terminal"
)

// Limits of what an agent sends and gets.
const (
	maxAnswer    = 128 << 10
	maxManifests = 256 << 10
)

// instructions are what an agent reads first.
const instructions = `Tools for a Kubernetes cluster whose access is controlled by Proviso. They use a token that can do less than its user.
Ask can_i before you act, and explain when something was refused: it says which rule decided and what would change it.
apply shows what would change and gives a confirmation id; call it again with the id only to make that change.`

// tools answer the calls of one client.
type tools struct {
	access  *access
	run     func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int
	pending pending
}

func newTools(a *access) *tools {
	return &tools{access: a, run: cli.Runner(cli.Commands, policytools.Keeping())}
}

func (t *tools) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "proviso", Title: "Proviso", Version: buildinfo.Get().Version}, &mcp.ServerOptions{Instructions: instructions})
	add(s, "can_i", "Tell whether a request is allowed with the token of these tools, and under which condition.", t.canI)
	add(s, "who_can", "List the users and groups who can make a request.", t.whoCan)
	add(s, "explain", "Tell which rules allow or refuse a request, and what would change the answer.", t.explain)
	add(s, "plan", "Tell who would gain or lose which rights if manifests of roles and bindings were applied. Changes nothing.", t.plan)
	add(s, "lint", "Find problems in the policy of the cluster, or of manifests.", t.lint)
	add(s, "get", "Show an object as YAML.", t.get)
	add(s, "list", "List objects as a table.", t.list)
	add(s, "apply", "Apply manifests by server-side apply. The first call is a dry run: it shows what would change and gives a confirmation id.", t.apply)
	return s
}

// add adds a tool. An error becomes an answer that the agent can read.
func add[In any](s *mcp.Server, name, description string, do func(context.Context, In) (string, error)) {
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: name != "apply"}}
	mcp.AddTool(s, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := do(ctx, in)
		if err != nil {
			text = strings.TrimSpace(text + "\n" + err.Error())
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: cut(text)}}, IsError: err != nil}, nil, nil
	})
}

// cut keeps an answer readable.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxAnswer {
		return text
	}
	return strings.ToValidUTF8(text[:maxAnswer], "") + fmt.Sprintf("\n… cut after %d bytes: ask for less", maxAnswer)
}

// codeUnanswered is the exit code of a question that has no answer.
const codeUnanswered = 3

// command runs a command of proviso with the token. Words of the agent are values of flags (--name=value) or come after
// --, so none of them is parsed as a flag.
func (t *tools) command(ctx context.Context, in string, name string, flags []string, words ...string) (string, error) {
	file, err := t.access.kubeconfig(ctx)
	if err != nil {
		return "", err
	}
	args := append([]string{name, "--kubeconfig=" + file}, flags...)
	args = append(append(args, "--"), words...)
	return t.execute(ctx, args, in)
}

// execute runs a command in this process. It returns one text, followed by the warnings.
func (t *tools) execute(ctx context.Context, args []string, in string) (string, error) {
	var out, errOut bytes.Buffer
	code := t.run(ctx, args, strings.NewReader(in), terminal.Clean(&out), terminal.Clean(&errOut))
	text := strings.TrimSpace(out.String() + errOut.String())
	if code >= codeUnanswered {
		return "", errors.New(text)
	}
	return text, nil
}
