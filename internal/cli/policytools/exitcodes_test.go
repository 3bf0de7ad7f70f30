package policytools

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
)

var (
	exitCodeHelp = regexp.MustCompile(`(?m)^Exit code.*$`)
	exitCodeIn   = regexp.MustCompile(`\b[0-3]\b`)
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
