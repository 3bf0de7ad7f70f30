package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"proviso.dev/proviso/internal/platform/terminal"
)

// Exit codes are the same for all commands that answer a question; 0 means yes, or nothing to report.
const (
	codeNo = 1
	// codeDepends is for an answer that depends on the object, or for something that would change.
	codeDepends = 2
	// codeUnanswered is for a question that could not be answered: bad input, no server, no right to ask.
	codeUnanswered = 3
)

// exitCodes are the words that help texts share.
const exitCodes = "Exit code 0 for yes, 1 for no, 2 if it is conditional, 3 if the question could not be answered."

// annotationFailure names, on a command that answers no question, the exit code of its failures.
const annotationFailure = "proviso.dev/failure"

// FailsWith sets the exit code of a command that answers no question.
func FailsWith(cmd *cobra.Command, code int) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[annotationFailure] = strconv.Itoa(code)
}

// Execute runs a command tree and returns the exit code. An error is printed as one line; one without words is only a
// code.
func Execute(root *cobra.Command, errOut io.Writer) int {
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if message := sentence(err); message != "" {
		if strings.HasPrefix(message, "unknown ") && !strings.Contains(message, "--help") { // a command or a flag
			message += fmt.Sprintf("; see '%s --help'", cmd.CommandPath())
		}
		// What the server says may have several lines; none of them begins as the first one does.
		lines := strings.Split(message, "\n")
		for i := range lines {
			lines[i] = terminal.Text(lines[i])
		}
		terminal.Fprintf(errOut, "proviso: %s\n", terminal.Lines(strings.Join(lines, "\n  ")))
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	if code, err := strconv.Atoi(cmd.Annotations[annotationFailure]); err == nil {
		return code
	}
	return codeUnanswered
}

// unknownUser is client-go's error if --user names none of the kubeconfig.
var unknownUser = regexp.MustCompile(`^auth info "(.*)" does not exist$`)

// sentence is an error in one line, with what to do about the commonest ones.
func sentence(err error) string {
	var unreachable *url.Error
	if errors.As(err, &unreachable) && utilnet.IsConnectionRefused(err) {
		server := unreachable.URL
		if u, err := url.Parse(server); err == nil {
			server = u.Scheme + "://" + u.Host
		}
		if why := noKubeconfig(); server == defaultServer && why != "" {
			return why
		}
		return fmt.Sprintf("the server at %s does not answer: connection refused; check that it is running and that KUBECONFIG names it", server)
	}
	if user := unknownUser.FindStringSubmatch(err.Error()); user != nil {
		return fmt.Sprintf("the kubeconfig has no user %q, whose credentials --user would use; to ask about a user, use --as", user[1])
	}
	message, suggestion, ok := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if ok {
		message += fmt.Sprintf(` (did you mean "%s"?)`, strings.Join(strings.Fields(suggestion), `" or "`))
	}
	return message
}

// answered ends a command with the code of its answer, without a word.
func answered(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{code: code}
}

// exitError ends the program with its own exit code and, if its message is empty, without output.
type exitError struct {
	code    int
	message string
}

func (e exitError) Error() string { return e.message }

// ExitCode is how scripts see the failure.
func (e exitError) ExitCode() int { return e.code }
