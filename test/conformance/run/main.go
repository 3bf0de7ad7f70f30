// Command run starts the built server for each mode, with Proviso's feature gates all on, all off, or all on with
// fields that are hidden from the user of the suite, and runs the conformance suite against it.
// `go run ./hack/prove conformance` calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// gates are Proviso's own feature gates; Kubernetes' keep their defaults in both modes.
var gates = []string{"ConditionalAuthorization", "UniformConnectAuthorization", "ConditionalReads", "PolicyAuthorization", "FieldPermissions", "HiddenFields", "ProtectedAttributes", "DynamicAudit"}

var modeNames = map[string]string{"on": "all gates on", "off": "all gates off", "hidden": "fields hidden"}

type options struct {
	binary  string
	list    string
	user    string
	modes   string
	procs   int
	keep    bool
	suggest bool
	deeds   string
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the built proviso")
	flag.StringVar(&o.list, "specs", "testdata/specs.txt", "the list of specs to run")
	flag.StringVar(&o.user, "user", "admin", "whose kubeconfig the server writes when it is ready")
	flag.StringVar(&o.modes, "modes", "on,off", "which modes to run: all gates on, all gates off, hidden (all on, with hidden fields)")
	flag.IntVar(&o.procs, "procs", 6, "how many specs run at once; they wait more than they work")
	flag.BoolVar(&o.keep, "keep", false, "keep the servers' data and logs")
	flag.BoolVar(&o.suggest, "suggest", false, "record the requests, and suggest rights for those who made them")
	flag.StringVar(&o.deeds, "deeds", "", "record what the server itself does in this file, for hack/deeds")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Minute, "limit for one mode")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("no server to test, run `make build` first: %w", err)
	}
	list, err := filepath.Abs(o.list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "proviso-conformance-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("== data and logs stay in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	suite, err := buildSuite(ctx, dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, mode := range strings.Split(o.modes, ",") {
		began := time.Now()
		fmt.Printf("== conformance, %s\n", modeNames[mode])
		err := o.mode(ctx, mode, binary, suite, list, dir)
		verdict := "passed"
		if err != nil {
			verdict = "failed"
			failed = append(failed, fmt.Errorf("%s: %w", modeNames[mode], err))
		}
		fmt.Printf("== conformance, %s: %s in %s\n", modeNames[mode], verdict, time.Since(began).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// mode runs the suite against a fresh server.
func (o options) mode(ctx context.Context, mode, binary, suite, list, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	value, ok := map[string]string{"on": "true", "hidden": "true", "off": "false"}[mode]
	if !ok {
		return fmt.Errorf("mode %q is neither on nor off nor hidden", mode)
	}
	var record *recording
	var flags []string
	if o.suggest {
		record = &recording{binary: binary, dir: dir}
		var err error
		if flags, err = record.flags(); err != nil {
			return err
		}
	}
	if o.deeds != "" {
		var err error
		if flags, err = recordItself(dir, o.deeds); err != nil {
			return err
		}
	}
	server, err := start(ctx, binary, filepath.Join(dir, mode), o.user, value, flags...)
	if err != nil {
		return err
	}
	runErr := o.against(ctx, mode, suite, list, server, dir, record)
	if err := server.stop(); err != nil {
		runErr = errors.Join(runErr, err)
	}
	if record != nil && runErr == nil {
		return record.suggest(ctx)
	}
	if runErr != nil {
		fmt.Printf("-- the server's last lines (%s)\n%s\n", modeNames[mode], server.tail(40))
	}
	return runErr
}

// against runs the suite as the administrator or, if it is recorded or fields are hidden, as a user of its own.
func (o options) against(ctx context.Context, mode, suite, list string, s *server, dir string, record *recording) error {
	if mode == "hidden" {
		kubeconfig, err := (&recording{binary: s.binary, dir: dir}).hide(ctx, s)
		if err != nil {
			return err
		}
		return o.ginkgo(ctx, suite, list, kubeconfig, s.binary, dir)
	}
	if record == nil {
		return o.ginkgo(ctx, suite, list, s.kubeconfig, s.binary, dir)
	}
	kubeconfig, err := record.user(ctx, s)
	if err != nil {
		return err
	}
	if err := o.ginkgo(ctx, suite, list, kubeconfig, s.binary, dir); err != nil {
		return err
	}
	return record.dump(ctx, s)
}

func buildSuite(ctx context.Context, dir string) (string, error) {
	suite := filepath.Join(dir, "conformance.test")
	fmt.Println("== building the conformance suite")
	return suite, visible(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", suite, "."))
}

// ginkgo runs the suite in parallel processes. kubectl is the one inside of the binary under test.
func (o options) ginkgo(ctx context.Context, suite, list, kubeconfig, binary, dir string) error {
	kubectl := filepath.Join(dir, "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", binary)
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "ginkgo", fmt.Sprintf("--procs=%d", o.procs), "--succinct", "--no-color", "--silence-skips",
		"--timeout="+o.timeout.String(), suite, "--",
		"--kubeconfig="+kubeconfig, "--kubectl-path="+kubectl, "--specs="+list, "--e2e-output-dir="+dir, "--provider=skeleton")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return visible(cmd)
}

func visible(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path)+" "+strings.Join(cmd.Args[1:min(3, len(cmd.Args))], " "), err)
	}
	return nil
}
