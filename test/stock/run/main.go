// Command run stands in for `proviso serve` where servers are tested from outside: it starts a stock kube-apiserver
// with a side-car, and the controllers that `proviso serve` has, and ends them when it is told to end.
package main

import (
	"context"
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

	"proviso.dev/proviso/internal/controllers"
	"proviso.dev/proviso/test/stock"
)

func main() {
	proviso := os.Getenv("PROVISO_BIN")
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		err := syscall.Exec(proviso, append([]string{proviso}, os.Args[1:]...), os.Environ())
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, proviso, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, proviso string, args []string) error {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	dir, port := flags.String("data-dir", "", "an empty directory with a short path"), flags.Int("secure-port", 0, "the port of the API server")
	compaction := flags.Duration("etcd-compaction-interval", 5*time.Minute, "how often the API server compacts its etcd")
	_ = flags.String("feature-gates", "", "not used: a stock server does not know ours")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if proviso == "" || *dir == "" {
		return errors.New("PROVISO_BIN and --data-dir are needed")
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	p, err := stock.Prepare(stock.Config{Proviso: proviso, Dir: *dir, Port: *port, Server: []string{"--etcd-compaction-interval=" + compaction.String()}})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, os.Stderr) }()
	for _, step := range [][]string{
		{"kubectl", "--kubeconfig", p.Kubeconfig, "get", "--raw", "/readyz"},
		{"kubectl", "--kubeconfig", p.Kubeconfig, "apply", "-f", filepath.Join(p.Side, "cluster.yaml")},
		{"sidecar", "check", "--dir", p.Side},
	} {
		if err := until(ctx, ended, func() bool { return exec.CommandContext(ctx, proviso, step...).Run() == nil }); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(step, " "), err)
		}
	}
	if err := control(ctx, p); err != nil {
		return err
	}
	fmt.Println("Ready:", p.Kubeconfig)
	return <-ended
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
