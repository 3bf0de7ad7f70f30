package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Binary is a test binary of a package.
type Binary struct {
	// Path of the binary, and Dir of the package's source, where it finds its files.
	Path, Dir string
	// Env is added to the environment.
	Env []string
	// Limit bounds one process. Leaks is how long to wait at its end for goroutines; upstream waits for ten minutes.
	Limit, Leaks time.Duration
}

// List are the top-level tests that match.
func (b Binary) List(ctx context.Context, pattern string) ([]string, error) {
	cmd := exec.CommandContext(ctx, b.Path, "-test.list", pattern)
	cmd.Dir, cmd.Env = b.Dir, append(os.Environ(), b.Env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", b.Path, err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return !strings.HasPrefix(name, "Test") }), nil
}

// Run runs tests in a mode. One that ends the process is a crash, and the rest is run in a new process.
func (b Binary) Run(ctx context.Context, mode string, tests []string, log string) (Results, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	results, left := Results{}, slices.Clone(tests)
	for len(left) > 0 {
		last, err := b.once(ctx, mode, left, results, out)
		if err != nil {
			return results, err
		}
		left = slices.DeleteFunc(left, func(t string) bool { return results[t] != "" })
		if len(left) == 0 {
			break
		}
		// test2json reports the test that ended the process as failed, as the last one.
		crashed := left[0]
		if results[last] == "fail" {
			crashed = last
		}
		results[crashed] = "crash"
		left = slices.DeleteFunc(left, func(t string) bool { return t == crashed })
	}
	return results, nil
}

// once runs one process and returns the last top-level test that ended.
func (b Binary) once(ctx context.Context, mode string, tests []string, results Results, log *os.File) (last string, err error) {
	quoted := make([]string, len(tests))
	for i, t := range tests {
		quoted[i] = regexp.QuoteMeta(t)
	}
	cmd := exec.CommandContext(ctx, b.Path, "-test.v=test2json", "-test.short", "-test.timeout="+b.Limit.String(), "-test.run", "^("+strings.Join(quoted, "|")+")$")
	cmd.Dir, cmd.Env = b.Dir, append(append(os.Environ(), b.Env...), "PROVISO_UPSTREAM="+mode)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	events := exec.CommandContext(ctx, "go", "tool", "test2json", "-t")
	events.Stdin = reader
	text, err := events.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := events.Start(); err != nil {
		return "", err
	}
	err = cmd.Start()
	_, _ = writer.Close(), reader.Close()
	if err != nil {
		return "", err
	}
	var patience *time.Timer
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		_, _ = fmt.Fprintf(log, "%s\n", lines.Bytes())
		var e struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "pass", "fail", "skip":
			results[e.Test] = e.Action
			if !strings.Contains(e.Test, "/") {
				last = e.Test
			}
			if patience == nil && !slices.ContainsFunc(tests, func(t string) bool { return results[t] == "" }) {
				// Ask what is left instead of waiting for it.
				patience = time.AfterFunc(b.Leaks, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
			}
		}
	}
	_, _ = events.Wait(), cmd.Wait()                    // the results say what went wrong
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a test that ends the process leaves its etcd
	if patience != nil {
		patience.Stop()
	}
	return last, ctx.Err()
}
