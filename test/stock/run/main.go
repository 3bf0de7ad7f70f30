// Command run stands in for `proviso serve` where servers are tested from outside: it starts a stock kube-apiserver
// with a sidecar, and the controllers that `proviso serve` has, and ends them when it is told to end. With all of our
// feature gates off it is the kube-apiserver alone.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/hosts/apiserver/controllers"
	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/stock"
)

// tester tests. RBAC gives it everything and, unlike the member of system:masters, it is exempt from nothing.
const tester = "tester"

// policy is there while it tests: each of its writes is decided in admission, too.
//
//go:embed policy.yaml
var policy string

func main() {
	proviso := os.Getenv("PROVISO_BIN")
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		err := syscall.Exec(proviso, append([]string{proviso}, os.Args[1:]...), os.Environ())
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := os.Chdir(os.Getenv("PROVISO_SOURCE")) // the stock servers are built from its modules
	if err == nil {
		err = run(ctx, proviso, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, proviso string, args []string) error {
	if len(args) == 1 && args[0] == "build" {
		_, err := stock.Server()
		_, other := stock.Etcd()
		return errors.Join(err, other)
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	dir, port := flags.String("data-dir", "", "an empty directory with a short path"), flags.Int("secure-port", 0, "the port of the API server")
	compaction := flags.Duration("etcd-compaction-interval", 5*time.Minute, "how often the API server compacts its etcd")
	gates := flags.String("feature-gates", "", "ours, which a stock server does not know: if all are off, there is no sidecar")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if proviso == "" || *dir == "" {
		return errors.New("PROVISO_BIN, PROVISO_SOURCE and --data-dir are needed")
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	p, err := stock.Prepare(stock.Config{Proviso: proviso, Dir: *dir, Port: *port, Server: []string{"--etcd-compaction-interval=" + compaction.String()}})
	if err != nil {
		return err
	}
	policed := *gates == "" || strings.Contains(*gates, "=true")
	if !policed {
		p.Server, p.Car = p.Alone(), nil
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, os.Stderr) }()
	for _, step := range steps(p, policed) {
		if err := until(ctx, ended, func() bool { return step.done(ctx, proviso) }); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(step.args, " "), err)
		}
	}
	if err := control(ctx, p); err != nil {
		return err
	}
	// A program that waits for this file knows that everything is there.
	kubeconfig, err := pki.IssueClient(p.Files, pki.ClientRequest{User: tester, TTL: 24 * time.Hour})
	if err == nil {
		err = atomicfile.Replace(filepath.Join(p.Dir, tester+".kubeconfig"), kubeconfig, atomicfile.Options{})
	}
	if err != nil {
		return err
	}
	fmt.Println("Ready:", p.Dir)
	return <-ended
}

// step is a command of the built program that is tried until it succeeds or, if there is something that it has to say,
// until it fails with that.
type step struct {
	args []string
	in   string
	says string
}

func (s step) done(ctx context.Context, proviso string) bool {
	cmd := exec.CommandContext(ctx, proviso, s.args...)
	cmd.Stdin = strings.NewReader(s.in)
	out, err := cmd.CombinedOutput()
	if s.says != "" {
		return err != nil && strings.Contains(string(out), s.says)
	}
	return err == nil
}

// steps are how the servers become ready for the one that tests.
func steps(p *stock.Pair, policed bool) []step {
	admin := func(in string, args ...string) step {
		return step{args: append([]string{"kubectl", "--kubeconfig", p.Kubeconfig}, args...), in: in}
	}
	all := []step{admin("", "get", "--raw", "/readyz")}
	if policed {
		all = append(all, admin("", "apply", "-f", filepath.Join(p.Side, "cluster.yaml")), step{args: []string{"sidecar", "check", "--dir", p.Side}}, admin(policy, "apply", "-f", "-"))
	}
	all = append(all, admin("", "create", "clusterrolebinding", tester, "--clusterrole=cluster-admin", "--user="+tester),
		admin("", "-n", "default", "create", "configmap", "allowed", "--dry-run=server", "--as", tester))
	if policed {
		for label, says := range map[string]string{"forbidden": "policy-master", "owner": "protected"} {
			object := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "labels": {"proviso.example.com/%s": "x"}}}`, label)
			refused := admin(object, "-n", "default", "create", "-f", "-", "--dry-run=server", "--as", tester)
			refused.says = says
			all = append(all, refused)
		}
	}
	return all
}

// control runs controllers.
func control(ctx context.Context, p *stock.Pair) error {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(p.Files.CACert)
	if err != nil {
		return err
	}
	all, err := controllers.New(controllers.Config{RestConfig: config, RootCA: ca, ServiceAccountKeyFile: p.Files.SAKey, Names: []string{"*"}})
	if err != nil {
		return err
	}
	go func() {
		if err := all.Run(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "stock: controllers:", err)
		}
	}()
	return nil
}

// until polls.
func until(ctx context.Context, ended chan error, ok func() bool) error {
	for !ok() {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), <-ended)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
