package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// Issue is one thing that is wrong with an expression. Line and Column start
// at 1; both are 0 when the issue is about the expression as a whole.
type Issue struct {
	Line    int
	Column  int
	Message string
}

func (i Issue) String() string {
	if i.Line == 0 {
		return i.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", i.Line, i.Column, i.Message)
}

// Issues is everything that is wrong with an expression. It can be returned as an error; len 0 means that nothing is
// wrong.
type Issues []Issue

func (is Issues) Error() string {
	parts := make([]string, len(is))
	for i, issue := range is {
		parts[i] = issue.String()
	}
	return strings.Join(parts, "; ")
}

// maxIssues bounds the issues reported for one expression.
const maxIssues = 20

func wholeIssue(format string, args ...any) Issues {
	return Issues{{Message: fmt.Sprintf(format, args...)}}
}

// hinted adds the right name to a message about a name that only the other kind of expression has.
func hinted(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	switch message {
	case "undeclared reference to 'object'":
		return message + "; in where it is called resource"
	case "undeclared reference to 'oldObject'":
		return message + "; in where it is called resource, which is the stored and the new object"
	case "undeclared reference to 'resource'":
		return message + "; in when it is called object, and oldObject as it is stored"
	}
	return message
}

func fromCEL(iss *cel.Issues) Issues {
	var out Issues
	for _, e := range iss.Errors() {
		if len(out) == maxIssues {
			out = append(out, Issue{Message: "more errors follow"})
			break
		}
		line, col := e.Location.Line(), e.Location.Column()+1
		if line <= 0 {
			line, col = 0, 0
		}
		out = append(out, Issue{Line: line, Column: col, Message: hinted(e.Message)})
	}
	if len(out) == 0 {
		out = wholeIssue("expression does not compile: %v", iss.Err())
	}
	return out
}
