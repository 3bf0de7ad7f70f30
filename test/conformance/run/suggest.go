package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// suiteUser runs the suite while its requests are recorded. It is not a member of system:masters: its rights come from
// a binding, which the suggestion replaces.
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

// suggest makes a suggestion for the user of the suite, in place of the binding to cluster-admin. The command replays
// what was recorded, with the suggestion instead of the binding; it prints nothing that breaks a request.
func (r *recording) suggest(ctx context.Context) error {
	if err := r.to(ctx, r.file("least.yaml"), "suggest", "--replay", r.file("audit.log"), "--from", r.file("policy.yaml"), "--user", suiteUser); err != nil {
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
	fmt.Printf("== %d rules, %d permissions for single fields\n", strings.Count(string(text), "\n- apiGroups:"), strings.Count(string(text), "- granular:"))
	if !strings.Contains(string(text), "decided as before; the suggestion grants nothing new") || !strings.Contains(string(text), "It replaces ClusterRoleBinding \""+suiteUser+"\"") {
		return errors.New("the suggestion is not proven")
	}
	return nil
}
