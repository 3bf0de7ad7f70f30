package policytools

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// execute runs a command and returns what it prints and its exit code; an error with words counts as 3.
func execute(t testing.TB, command func(genericiooptions.IOStreams) *cobra.Command, stdin string, args ...string) (out string, code int, said error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	var coded exit
	switch {
	case errors.As(err, &coded):
		code = int(coded)
	case err != nil:
		code, said = codeUnanswered, err
	}
	return stdout.String() + stderr.String(), code, said
}
