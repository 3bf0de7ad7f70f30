// Command commandreference writes the reference page of the commands and their flags.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	documents "proviso.dev/proviso"
	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/docsite"
	"proviso.dev/proviso/internal/cli/etcdbackup"
	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/hosts/explorer"
)

//go:generate go run . ../../docs/reference/commands.md

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: commandreference FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page(program())), 0o644); err != nil { //nolint:gosec // a page of documentation, for everybody
		fmt.Fprintf(os.Stderr, "commandreference: %v\n", err)
		os.Exit(1)
	}
}

// program has all commands but the two that run servers, whose flags are kube-apiserver's.
func program() *cobra.Command {
	streams := genericiooptions.IOStreams{}
	root := &cobra.Command{Use: "proviso"}
	root.AddCommand(cli.Commands(streams)...)
	root.AddCommand(policytools.Commands(streams)...)
	root.AddCommand(cli.NewKubeconfigCommand(streams), etcdbackup.NewCommand(streams), docsite.NewCommand(streams, documents.Documents),
		explorer.NewCommand(streams, cli.Runner(cli.Commands, policytools.Keeping())))
	cli.Group(root)
	cli.Logging(root.Commands()...)
	return root
}

const introduction = `<!-- Written by hack/commandreference; ` + "`make generate`" + ` writes it. -->

# Commands and flags

All commands but those that run something on this machine work as ` + "`kubectl proviso …`" + `, too, and
` + "`proviso kubectl`" + ` is kubectl. ` + "`proviso serve --help`" + ` lists the flags of the server, which are those of kube-apiserver and
some of its own, and ` + "`proviso sidecar --help`" + ` those of the sidecar.

## Exit codes

Commands that answer a question end with 0 for yes, 1 for no, 2 if it depends on the object or something would change, and 3 if
the question could not be answered. [Exit codes](exit-codes.md) lists them by command.

## The server that is asked

Commands that ask a server take the flags of kubectl:
`

// page is the reference.
func page(root *cobra.Command) string {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(connection)
	var names []string
	connection.VisitAll(func(f *pflag.Flag) { names = append(names, "`--"+f.Name+"`") })
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n* " + strings.Join(names, "\n* ") + "\n\nIn some commands, `--namespace` and `--user` say where and whom the question is about instead.\n")
	for _, group := range append(root.Groups(), &cobra.Group{Title: "Other commands:"}) {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				write(&b, cmd, connection)
			}
		}
	}
	return b.String()
}

func write(b *strings.Builder, cmd *cobra.Command, connection *pflag.FlagSet) {
	if cmd.Hidden {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", cmd.UseLine())
	}
	var rows []string
	shared := false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Deprecated != "" || f.Name == "help" || f.Name == "v":
		case connection.Lookup(f.Name) != nil && connection.Lookup(f.Name).Usage == f.Usage:
			shared = true
		default:
			rows = append(rows, row(f))
		}
	})
	slices.Sort(rows)
	if len(rows) > 0 {
		b.WriteString("\n| flag | default | |\n|---|---|---|\n" + strings.Join(rows, ""))
	}
	if shared {
		b.WriteString("\nAnd the flags of kubectl that say which server is asked, and as whom.\n")
	}
	for _, sub := range cmd.Commands() {
		write(b, sub, connection)
	}
}

func row(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	value := ""
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
		value = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, value, strings.ReplaceAll(strings.ReplaceAll(f.Usage, "|", "\\|"), "\n", " "))
}
