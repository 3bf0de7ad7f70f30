// Command run builds packages of Kubernetes' test/integration and runs them against Proviso, then against stock what
// did not pass, and fails if there is a difference without a reason, or a reason without a difference.
// `go run ./hack/prove upstream` calls it.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"proviso.dev/proviso/test/upstream/compare"
)

type options struct {
	work, packages, run, skip string
	full, spool, buildOnly    bool
	limit, leaks              time.Duration

	root    string // of this repository
	patched []string
}

func main() {
	var o options
	flag.StringVar(&o.work, "work", ".upstream", "directory for the patched copy of Kubernetes, test binaries and logs")
	flag.StringVar(&o.packages, "packages", "auth,apiserver/apply", "packages below test/integration, separated by commas")
	flag.StringVar(&o.run, "run", ".", "top-level tests to run")
	flag.StringVar(&o.skip, "skip", "", "top-level tests to leave out, separated by commas")
	flag.BoolVar(&o.full, "full", false, "run everything on stock too, not only what did not pass on Proviso and has no reason to differ")
	flag.BoolVar(&o.spool, "spool", false, "serve dynamic audit too")
	flag.BoolVar(&o.buildOnly, "build", false, "build only")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "limit for one process of tests")
	flag.DurationVar(&o.leaks, "leaks", 15*time.Second, "how long to wait at the end for goroutines")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.main(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func (o *options) main(ctx context.Context) error {
	var err error
	if o.root, err = goOutput(ctx, ".", "list", "-m", "-f", "{{.Dir}}", "proviso.dev/proviso"); err != nil {
		return err
	}
	if o.work, err = filepath.Abs(o.work); err != nil {
		return err
	}
	known, err := compare.ReadDifferences(filepath.Join(o.root, "test/upstream/testdata/differences.txt"))
	if err != nil {
		return err
	}
	if err := o.prepare(ctx); err != nil {
		return err
	}
	unexplained := 0
	for pkg := range strings.SplitSeq(o.packages, ",") {
		n, err := o.one(ctx, strings.TrimSpace(pkg), known)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		unexplained += n
	}
	if unexplained > 0 {
		return fmt.Errorf("%d tests differ from stock without a reason in test/upstream/testdata/differences.txt, or have one there and do not differ", unexplained)
	}
	return nil
}

// prepare makes the patched copy of Kubernetes, the module file that uses it, and etcd.
func (o *options) prepare(ctx context.Context) error {
	for _, dir := range []string{"bin", "out"} {
		if err := os.MkdirAll(filepath.Join(o.work, dir), 0o755); err != nil {
			return err
		}
	}
	source, err := goOutput(ctx, o.root, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	patch, err := os.ReadFile(filepath.Join(o.root, "test/upstream/testdata/kubernetes.patch"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(o.work, "stamp")
	if have, _ := os.ReadFile(stamp); string(have) != source+"\n"+string(patch) {
		if err := os.RemoveAll(o.kubernetes()); err != nil {
			return err
		}
		if err := os.CopyFS(o.kubernetes(), os.DirFS(source)); err != nil {
			return err
		}
		if err := compare.Patch(ctx, o.kubernetes(), filepath.Join(o.root, "test/upstream/testdata/kubernetes.patch")); err != nil {
			return err
		}
		if err := os.WriteFile(stamp, []byte(source+"\n"+string(patch)), 0o644); err != nil {
			return err
		}
	}
	if err := o.linkStaging(ctx); err != nil {
		return err
	}
	if err := compare.MakeExecutable(filepath.Join(o.kubernetes(), "test/integration")); err != nil {
		return err
	}
	for from, to := range map[string]string{"go.mod": o.modfile(), "go.sum": strings.TrimSuffix(o.modfile(), ".mod") + ".sum"} {
		text, err := os.ReadFile(filepath.Join(o.root, from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	o.patched = compare.PatchedPackages(string(patch))
	_, err = goOutput(ctx, o.root, "build", "-o", filepath.Join(o.work, "bin", "etcd"), "./test/stock/etcd")
	return err
}

// linkStaging puts k8s.io/api where Kubernetes' repository has it: tests read its fixtures there, and the module does
// not have them.
func (o *options) linkStaging(ctx context.Context) error {
	api, err := goOutput(ctx, o.root, "list", "-m", "-f", "{{.Dir}}", "k8s.io/api")
	if err != nil {
		return err
	}
	link := filepath.Join(o.kubernetes(), "staging/src/k8s.io/api")
	if have, _ := os.Readlink(link); have == api {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	_ = os.Remove(link)
	return os.Symlink(api, link)
}

func (o *options) kubernetes() string { return filepath.Join(o.work, "kubernetes") }
func (o *options) modfile() string    { return filepath.Join(o.work, "upstream.mod") }

// build compiles the tests of a package. Only what the patch changes, and what depends on that, is compiled again.
func (o *options) build(ctx context.Context, pkg, binary string) error {
	flags := []string{"-mod=mod", "-modfile=" + o.modfile(), "-tags=upstream"}
	list, err := goOutput(ctx, o.root, append(append([]string{"list"}, flags...), "-test", "-deps", "-json="+compare.Fields, pkg)...)
	if err != nil {
		return err
	}
	all, err := compare.Packages(list)
	if err != nil {
		return err
	}
	overlay, built, err := compare.Overlay(o.root, o.kubernetes(), filepath.Join(o.work, "changed"), pkg, compare.Changed(pkg, all, o.patched), all)
	if err != nil {
		return err
	}
	_, err = goOutput(ctx, o.root, append(append([]string{"test", "-c", "-vet=off"}, flags...), "-overlay="+overlay, "-o", binary, built)...)
	return err
}

// one builds and runs a package and returns how many tests differ without a reason, or have a reason and do not differ.
func (o *options) one(ctx context.Context, pkg string, known compare.Differences) (int, error) {
	name := strings.ReplaceAll(pkg, "/", "-")
	b := compare.Binary{Path: filepath.Join(o.work, "bin", name+".test"), Dir: filepath.Join(o.kubernetes(), "test/integration", pkg), Limit: o.limit, Leaks: o.leaks,
		Env: []string{"PATH=" + filepath.Join(o.work, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")}}
	begin := time.Now()
	if err := o.build(ctx, "k8s.io/kubernetes/test/integration/"+pkg, b.Path); err != nil {
		return 0, err
	}
	fmt.Printf("%s: built in %s\n", pkg, time.Since(begin).Round(time.Second))
	if o.buildOnly {
		return 0, nil
	}
	if o.spool {
		dir := filepath.Join(o.work, "spool")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
		b.Env = append(b.Env, "PROVISO_UPSTREAM_SPOOL="+dir)
	}
	tests, err := b.List(ctx, o.run)
	if err != nil {
		return 0, err
	}
	if skip := strings.Split(o.skip, ","); o.skip != "" {
		tests = without(tests, skip)
	}
	run := func(mode, log string, tests []string) (compare.Results, error) {
		if len(tests) == 0 {
			return nil, nil
		}
		begin := time.Now()
		b := b
		if mode == "chain" {
			b.Env = append(slices.Clone(b.Env), "UPSTREAM_DEFAULT_MODES=Node,RBAC")
		}
		r, err := b.Run(ctx, mode, tests, filepath.Join(o.work, "out", name+"."+log+".json"))
		fmt.Printf("%s: %s: %s (%s)\n", pkg, map[string]string{"on": "Proviso", "off": "stock", "chain": "stock, whole chain, Node,RBAC"}[mode], r, time.Since(begin).Round(time.Second))
		return r, err
	}
	on, err := run("on", "on", tests)
	if err != nil {
		return 0, err
	}
	bad, again := on.Bad(), tests
	if !o.full {
		// What is known to differ was tried on stock when its reason was written.
		bad = slices.DeleteFunc(bad, func(test string) bool {
			why := known.Why(pkg, test)
			if why != "" {
				fmt.Printf("DIFFERS %s %s, as is known: %s\n", pkg, test, why)
			}
			return why != ""
		})
		again = compare.TopLevel(bad)
	}
	off, err := run("off", "off", again)
	if err != nil {
		return 0, err
	}
	var differ []string
	for _, test := range bad {
		if r := off[test]; r != "fail" && r != "crash" {
			differ = append(differ, test)
		}
	}
	// What fails once may be late; what fails on the whole chain of stock servers with Proviso's default authorizers
	// too is the harness's, or of the default.
	retry, err := run("on", "on2", compare.TopLevel(differ))
	if err != nil {
		return 0, err
	}
	chain, err := run("chain", "chain", compare.TopLevel(differ))
	if err != nil {
		return 0, err
	}
	unexplained := 0
	for _, test := range differ {
		why := known.Why(pkg, test)
		if why == "" && retry[test] != "pass" {
			unexplained++
			why = "NO REASON"
		}
		fmt.Printf("DIFFERS %s %s: Proviso %s, again %s; stock %s, whole chain with Node,RBAC %s: %s\n", pkg, test, on[test], retry[test], off[test], chain[test], why)
	}
	for _, d := range known.Stale(pkg, on) {
		unexplained++
		fmt.Printf("PASSES %s %s, which has a reason to differ: %s\n", pkg, d.Test, d.Reason)
	}
	return unexplained, nil
}

func without(tests, skip []string) (left []string) {
	for _, t := range tests {
		keep := true
		for _, s := range skip {
			keep = keep && t != s
		}
		if keep {
			left = append(left, t)
		}
	}
	return left
}

// goOutput runs the go command and returns what it prints.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off") // a workspace cannot be built with another go.mod
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
