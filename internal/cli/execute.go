package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Execute runs a command tree and returns the exit code. An error is printed as one line; one without words is only a code.
func Execute(root *cobra.Command, errOut io.Writer) int {
	err := root.Execute()
	if err == nil {
		return 0
	}
	if message := err.Error(); message != "" {
		fmt.Fprintf(errOut, "proviso: %s\n", message)
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}
