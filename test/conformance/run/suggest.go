package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// suiteUser runs the suite while its requests are recorded. It is no member of system:masters: its rights come from a
// binding, which the suggestion replaces.
const suiteUser = "conformance"

// everythingPolicy records every request with its bodies.
const everythingPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitManagedFields: true\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: RequestResponse}]\n"

// recording is what is needed to suggest rights for the run.
type recording struct {
	binary, dir string
}

func (r *recording) file(name string) string { return filepath.Join(r.dir, name) }

// flags make the server record what it is asked.
func (r *recording) flags() ([]string, error) {
	if err := os.WriteFile(r.file("audit-policy.yaml"), []byte(everythingPolicy), 0o600); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file", r.file("audit-policy.yaml"), "--audit-log-path", r.file("audit.log")}, nil
}

// user makes the one that runs the suite, bound to cluster-admin, and returns its kubeconfig.
func (r *recording) user(ctx context.Context, s *server) (string, error) {
	kubeconfig := r.file(suiteUser + ".kubeconfig")
	if err := r.to(ctx, kubeconfig, "kubeconfig", "--data-dir", filepath.Dir(s.kubeconfig), "--user", suiteUser); err != nil {
		return "", err
	}
	return kubeconfig, r.to(ctx, os.DevNull, "kubectl", "--kubeconfig", s.kubeconfig, "create", "clusterrolebinding", suiteUser, "--clusterrole=cluster-admin", "--user="+suiteUser)
}

// dump keeps the policy of the server.
func (r *recording) dump(ctx context.Context, s *server) error {
	return r.to(ctx, r.file("policy.yaml"), "dump", "--kubeconfig", s.kubeconfig)
}

// to runs the binary, with its output in a file.
func (r *recording) to(ctx context.Context, file string, args ...string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return r.run(ctx, out, args...)
}

func (r *recording) run(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("proviso %s: %w", args[0], err)
	}
	return nil
}

// suggest makes a suggestion for the user of the suite, which the command proves, and proves it once more by another
// command: the user's binding is taken away, the suggestion is there instead, and every recorded request is decided
// anew.
func (r *recording) suggest(ctx context.Context) error {
	policy, log := r.file("policy.yaml"), r.file("audit.log")
	if err := r.to(ctx, r.file("least.yaml"), "suggest", "--replay", log, "--from", policy, "--for", suiteUser); err != nil {
		return err
	}
	text, err := os.ReadFile(r.file("least.yaml"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# ") {
			fmt.Print(line)
		}
	}
	if err := r.replaced(); err != nil {
		return err
	}
	var out strings.Builder
	err = r.run(ctx, &out, "plan", "--from", policy, "-f", r.file("after.yaml"), "--prune", "--replay", log, "-o", "json")
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) { // 2: something changes
		return err
	}
	var plan struct {
		Replay struct {
			Requests, Undecided int
			Flips               []struct{ User, Verb, Resource, Namespace, Name, Before, After string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &plan); err != nil {
		return err
	}
	fmt.Printf("== with the suggestion for %s instead of its binding: %d recorded requests, %d undecided, %d flip\n", suiteUser, plan.Replay.Requests, plan.Replay.Undecided, len(plan.Replay.Flips))
	if len(plan.Replay.Flips) > 0 || plan.Replay.Requests == 0 {
		return fmt.Errorf("the suggestion breaks what was recorded: %+v", plan.Replay.Flips[:min(5, len(plan.Replay.Flips))])
	}
	return nil
}

// replaced writes the policy with the suggestion instead of the binding of the suite's user.
func (r *recording) replaced() error {
	policy, err := os.ReadFile(r.file("policy.yaml"))
	if err != nil {
		return err
	}
	least, err := os.ReadFile(r.file("least.yaml"))
	if err != nil {
		return err
	}
	var kept []string
	taken := false
	for _, document := range strings.Split(string(policy), "\n---\n") {
		if strings.Contains(document, "kind: APIResourceList") {
			continue // what is served stays
		}
		if strings.Contains(document, "kind: ClusterRoleBinding") && strings.Contains(document, "\n  name: "+suiteUser+"\n") {
			taken = true
			continue
		}
		kept = append(kept, document)
	}
	if !taken {
		return fmt.Errorf("the binding of %s is not in the dumped policy", suiteUser)
	}
	return os.WriteFile(r.file("after.yaml"), []byte(strings.Join(append(kept, string(least)), "\n---\n")), 0o600)
}
