package policytools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli/atflag"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policytest"
	"proviso.dev/proviso/internal/platform/terminal"
)

// Exit codes, the same as of the commands that ask a server.
const (
	codeNo         = 1
	codeUnanswered = 3
)

// exit ends the program with a code, and without a word.
type exit int

func (exit) Error() string { return "" }

// ExitCode is how scripts see it.
func (e exit) ExitCode() int { return int(e) }

// Commands are the tools that work on files.
func Commands(streams genericiooptions.IOStreams) []*cobra.Command { return commands(streams, nil) }

// Keeping returns the commands for a process that asks one server again and again, as the explorer does: what it has
// read and compiled is kept as long as the server says that it is the same.
func Keeping() func(genericiooptions.IOStreams) []*cobra.Command {
	k := manifests.NewKept()
	return func(streams genericiooptions.IOStreams) []*cobra.Command { return commands(streams, k) }
}

func commands(streams genericiooptions.IOStreams, k *manifests.Kept) []*cobra.Command {
	return []*cobra.Command{NewTestCommand(streams), newPlanCommand(streams, k), NewLintCommand(streams), NewDumpCommand(streams), newMatrixCommand(streams, k), NewSuggestCommand(streams), NewHistoryCommand(streams), NewRollbackCommand(streams), NewUndoCommand(streams), NewCompileCommand(streams)}
}

// TestOptions are the flags of `proviso test`.
type TestOptions struct {
	Paths           []string
	MasterNamespace string
	Run             string
	Output          string
	Coverage        bool
	Threshold       int
	Watch           bool
	Init            bool
	At              atflag.Flag
	Target          string
	Accept          []string

	only *regexp.Regexp
	genericiooptions.IOStreams
}

// NewTestCommand returns `proviso test`.
func NewTestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TestOptions{IOStreams: streams, MasterNamespace: "master", Output: "table"}
	cmd := &cobra.Command{
		Use:   "test [DIR | FILE]...",
		Short: "Test policy in files: who is allowed what, by which rule",
		Long: `Run policy tests with the engine of the server, on files. No server is needed.

A policy test is a file *.test.yaml of kind PolicyTest in the given directory or below; the default is the current directory. It names
its policies by globs relative to the file. Each case has a request, an object and the expected answer: Allow, Deny (refused, for
any reason) or Conditional (it depends on the object, and the case has none). A case with the field each is a table: $(name) stands
for the variable of each row.

Failing cases are shown with the trace of the decision.

Exit code 0 if all cases pass, 1 if one fails or the coverage is below the threshold, 3 if they could not be decided.`,
		Example: `  # All tests below the current directory
  proviso test

  # Start: write tests for what the policies of a directory decide today
  proviso test --init policies/

  # Those of one directory whose name matches, and the rules that never decided
  proviso test policies/ --run 'volumes/.*allowed' --coverage

  # What would a managed cluster decide, for which the policy is compiled? Policies can also be a dump of such a cluster
  proviso test policies/ --target vap

  # For CI: JUnit, and at least nine of ten rules must be tested
  proviso test policies/ -o junit --coverage --threshold 90 > report.xml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			if o.Init {
				return o.initialize(cmd.Context())
			}
			return o.RunTests(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Run, "run", "", "Run only cases whose TEST/CASE matches this regular expression.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: table, json or junit.")
	fs.BoolVar(&o.Coverage, "coverage", false, "List the rules that never decided a case.")
	fs.IntVar(&o.Threshold, "threshold", 0, "Fail if less than this percentage of the rules decided a case. Implies --coverage.")
	fs.BoolVar(&o.Init, "init", false, "Write a first test for what the policies of a directory decide today.")
	fs.BoolVar(&o.Watch, "watch", false, "Run again whenever a file changes.")
	fs.StringVar(&o.Target, "target", "", "Decide as a cluster for which the policy is compiled: vap. The default is the engine.")
	fs.StringSliceVar(&o.Accept, "accept", nil, "With --target: rules, roles or objects of which to do without what cannot be had.")
	o.At.Add(fs)
	addMasterFlag(fs, &o.MasterNamespace)
	return cmd
}

// Complete checks the flags.
func (o *TestOptions) Complete(args []string) (err error) {
	if o.Paths = args; len(args) == 0 {
		o.Paths = []string{"."}
	}
	if !slices.Contains([]string{"table", "json", "junit"}, o.Output) {
		return fmt.Errorf("-o %s: want table, json or junit", o.Output)
	}
	switch {
	case o.Target != "" && o.Target != targetVAP:
		return fmt.Errorf("--target %s: want %s", o.Target, targetVAP)
	case o.Target == "" && len(o.Accept) > 0:
		return errors.New("--accept needs --target")
	case o.Target != "" && (o.Coverage || o.Threshold > 0):
		return errors.New("--target and --coverage are mutually exclusive")
	case o.Target != "" && o.Init:
		return errors.New("--target and --init are mutually exclusive")
	}
	if o.Threshold < 0 || o.Threshold > 100 {
		return fmt.Errorf("--threshold %d: want a percentage", o.Threshold)
	}
	if _, err := o.At.Asked(); err != nil {
		return err
	}
	if o.Run != "" {
		if o.only, err = regexp.Compile(o.Run); err != nil {
			return fmt.Errorf("--run: %w", err)
		}
	}
	return nil
}

// RunTests decides and prints, once or whenever a file changes.
func (o *TestOptions) RunTests(ctx context.Context) error {
	if !o.Watch {
		return o.once(ctx)
	}
	for seen := ""; ; {
		now := o.fingerprint()
		if now != seen {
			seen = now
			if err := o.once(ctx); err != nil && err.Error() != "" {
				terminal.Fprintln(o.ErrOut, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// fingerprint changes when a file does.
func (o *TestOptions) fingerprint() (out string) {
	for _, path := range o.Paths {
		_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil //nolint:nilerr // what cannot be read is not watched
			}
			if info, err := os.Stat(name); err == nil {
				out += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
	}
	return out
}

func (o *TestOptions) once(ctx context.Context) error {
	tests, err := policytest.Find(o.Paths)
	if err != nil {
		return err
	}
	at, err := o.At.Asked()
	if err != nil {
		return err
	}
	r := &policytest.Runner{MasterNamespace: o.MasterNamespace, Only: o.only, At: at, Managed: o.Target != "", Accept: o.Accept}
	if o.Coverage || o.Threshold > 0 {
		r.Coverage = &policytest.Coverage{}
	}
	result, err := r.Run(ctx, tests)
	if err != nil {
		return err
	}
	if len(result.Cases) == 0 {
		return fmt.Errorf("--run %s: no case matches", o.Run)
	}
	if err := printTests(o.Out, o.Output, result); err != nil {
		return err
	}
	if result.Failed > 0 {
		return exit(codeNo)
	}
	if r.Coverage != nil && r.Coverage.Percent < o.Threshold {
		terminal.Fprintf(o.ErrOut, "%d%% of the rules decided a case, but %d%% are required: write cases for the others, or lower --threshold\n", r.Coverage.Percent, o.Threshold)
		return exit(codeNo)
	}
	return nil
}
