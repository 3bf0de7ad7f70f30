package explorer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Run runs a command of proviso in this process and returns its exit code.
type Run func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int

// codeUnanswered is the exit code of a question that could not be answered.
const codeUnanswered = 3

// command is a command line that is made for a screen. Values go into flags of the form --name=value, or behind --, so
// none is parsed as a flag.
type command struct {
	name  []string
	flags []string
	words []string
	// hidden are flags that the explorer needs and a person does not.
	hidden []string
	in     string
}

// flag adds --name=value if there is a value.
func (c *command) flag(name, value string) {
	if value != "" {
		c.flags = append(c.flags, "--"+name+"="+value)
	}
}

// subject adds the flag of a subject, which is a user, group:NAME or serviceaccount:NAMESPACE/NAME on the page.
func (c *command) subject(text string) {
	if name, ok := strings.CutPrefix(text, "group:"); ok {
		c.flags = append(c.flags, "--group="+name)
	} else if account, ok := strings.CutPrefix(text, "serviceaccount:"); ok {
		c.flag("serviceaccount", strings.Replace(account, "/", ":", 1))
	} else {
		c.flag("user", strings.TrimPrefix(text, "user:"))
	}
}

// set adds a flag without a value.
func (c *command) set(name string, on bool) {
	if on {
		c.flags = append(c.flags, "--"+name)
	}
}

func (c *command) args() []string {
	args := append([]string{}, c.name...)
	args = append(append(args, c.flags...), c.hidden...)
	if len(c.words) > 0 {
		args = append(append(args, "--"), c.words...)
	}
	return args
}

// check refuses what no name has.
func (c *command) check() error {
	for _, arg := range c.args() {
		if len(arg) > 64<<10 || strings.ContainsFunc(arg, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }) {
			return fmt.Errorf("%q: this is not a name", arg[:min(len(arg), 80)])
		}
	}
	return nil
}

// String is the command as a user would type it.
func (c *command) String() string {
	var b strings.Builder
	b.WriteString("proviso")
	for _, arg := range c.name {
		b.WriteString(" " + quoted(arg))
	}
	dashes := false
	for _, arg := range c.words {
		if strings.HasPrefix(arg, "-") && !dashes {
			dashes = true
		}
	}
	if !dashes {
		for _, arg := range c.words {
			b.WriteString(" " + quoted(arg))
		}
	}
	for _, arg := range c.flags {
		name, value, has := strings.Cut(arg, "=")
		switch name {
		case "--namespace":
			name = "-n"
		case "--all-namespaces":
			name = "-A"
		case "--filename":
			name = "-f"
		}
		b.WriteString(" " + name)
		switch {
		case !has:
		case strings.HasPrefix(value, "-") && value != "-":
			b.WriteString("=" + quoted(value))
		default:
			b.WriteString(" " + quoted(value))
		}
	}
	if dashes {
		b.WriteString(" --")
		for _, arg := range c.words {
			b.WriteString(" " + quoted(arg))
		}
	}
	return b.String()
}

// quoted is an argument as a shell takes it.
func quoted(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// answer is what a screen gets.
type answer struct {
	// Command says the same in a terminal.
	Command string `json:"command"`
	// Code is its exit code.
	Code int `json:"code"`
	// Answer is what it prints as JSON.
	Answer json.RawMessage `json:"answer,omitempty"`
	// Notes are its words on standard error.
	Notes []string `json:"notes,omitempty"`
}

// ask runs a command that prints JSON.
func (h *handler) ask(ctx context.Context, c *command) (*answer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	c.hidden = append(c.hidden, h.identity...)
	code := h.run(ctx, c.args(), strings.NewReader(c.in), &out, &errOut)
	result := &answer{Command: c.String(), Code: code}
	for line := range strings.Lines(errOut.String()) {
		if line = strings.TrimSpace(line); line != "" {
			result.Notes = append(result.Notes, line)
		}
	}
	if code >= codeUnanswered || out.Len() == 0 {
		return result, commandError{words: strings.TrimPrefix(strings.Join(result.Notes, "\n"), "proviso: ")}
	}
	if !json.Valid(out.Bytes()) {
		return result, errors.New("the command did not print JSON: it is of another version")
	}
	result.Answer = out.Bytes()
	return result, nil
}

// commandError is why a command could not answer, in its own words.
type commandError struct{ words string }

func (e commandError) Error() string {
	if e.words == "" {
		return "the question could not be answered"
	}
	return e.words
}
