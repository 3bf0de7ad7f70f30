package policytools

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	documents "proviso.dev/proviso"
	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/docsite"
	"proviso.dev/proviso/internal/cli/etcdbackup"
	"proviso.dev/proviso/internal/hosts/explorer"
)

var (
	exitCodeHelp = regexp.MustCompile(`(?m)^Exit code.*$`)
	exitCodeIn   = regexp.MustCompile(`\b[0-3]\b`)
	exitCodeOne  = regexp.MustCompile(`(?m)^\| 1 \| no \| (.*): it failed \|$`)
	exitCodeWord = regexp.MustCompile("`([^`]+)`")
	exitCodeRow  = regexp.MustCompile("(?m)^\\| `(proviso [^`]+)` \\|(.*)\\|(.*)\\|(.*)\\|(.*)\\|$")
)

// OP-10: the page of exit codes has every command whose help names exit codes, with the same codes.
func TestExitCodesPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string][]string{}
	for _, row := range exitCodeRow.FindAllStringSubmatch(string(page), -1) {
		for code, cell := range row[2:] {
			if strings.TrimSpace(cell) != "" {
				written[row[1]] = append(written[row[1]], string(rune('0'+code)))
			}
		}
	}
	root := &cobra.Command{Use: "proviso"}
	root.AddCommand(cli.Commands(genericiooptions.IOStreams{})...)
	root.AddCommand(Commands(genericiooptions.IOStreams{})...)
	helped := map[string][]string{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if help := exitCodeHelp.FindString(cmd.Long); help != "" {
			helped[cmd.CommandPath()] = slices.Compact(slices.Sorted(slices.Values(exitCodeIn.FindAllString(help, -1))))
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if len(helped) < 8 {
		t.Fatalf("%d commands name exit codes: they are looked for in the wrong place", len(helped))
	}
	for command, codes := range helped {
		if !slices.Equal(codes, written[command]) {
			t.Errorf("%s: its help names %v, the page %v", command, codes, written[command])
		}
	}
	for command := range written {
		if helped[command] == nil {
			t.Errorf("%s: its help names no exit code", command)
		}
	}
}

// OP-10: every command fails with the code that the page says: 1 for those that it names, 3 for all others.
func TestExitCodeOfFailures(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	row := exitCodeOne.FindSubmatch(page)
	if row == nil {
		t.Fatal("the page does not say which commands fail with 1")
	}
	one := map[string]bool{}
	for _, word := range exitCodeWord.FindAllSubmatch(row[1], -1) {
		one[string(word[1])] = true
	}
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}
	program := func() *cobra.Command {
		root := &cobra.Command{Use: "proviso", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(cli.Commands(streams)...)
		root.AddCommand(Commands(streams)...)
		root.AddCommand(cli.NewKubeconfigCommand(streams), etcdbackup.NewCommand(streams), etcdbackup.NewFormerCommand(streams), docsite.NewCommand(streams, documents.Documents),
			explorer.NewCommand(streams, cli.Runner(cli.Commands, Keeping())))
		return root
	}
	one["snapshot"] = one["backup"] // its former name
	seen := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		args := strings.Fields(cmd.CommandPath())[1:]
		want := codeUnanswered
		if len(args) > 0 && one[args[0]] {
			want = 1
		}
		seen++
		root := program()
		root.SetArgs(append(args, "--no-such-flag"))
		if got := cli.Execute(root, io.Discard); got != want {
			t.Errorf("%s fails with %d, and the page says %d", cmd.CommandPath(), got, want)
		}
	}
	visit(program())
	if seen < 40 {
		t.Errorf("only %d commands were run", seen)
	}
}
