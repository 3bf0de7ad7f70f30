// Command mutate breaks the code in small ways, one at a time, and tells which of them no test notices.
//
//	go run ./hack/mutate [-n 14] [-seed 1] [-min 90] PACKAGE[=TEST,TEST…]…
//
// Each package is mutated N times, at places that the seed chooses. The tests of the package decide, and those of the
// packages listed behind it. Nothing is written to the tree: the compiler reads the mutant through an overlay. A mutant
// that does not compile is replaced by another one. Survivors are printed; those that answered.txt explains do not
// count. Fewer than -min percent killed is a failure.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// answered lists the survivors that were reviewed: "file: before -> after # why it changes nothing".
//
//go:embed answered.txt
var answered string

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type options struct {
	n       int
	seed    uint64
	min     int
	timeout time.Duration
}

// target is a package to be mutated and the packages whose tests decide.
type target struct {
	dir   string
	tests []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.IntVar(&o.n, "n", 14, "mutants per package")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the mutants")
	flags.IntVar(&o.min, "min", 90, "percent of the mutants that tests have to kill")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "a mutant whose tests take longer counts as killed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name at least one package, such as ./internal/request/authorize=./test/law")
	}
	known := answers(answered)
	weak := false
	for _, arg := range flags.Args() {
		t := parseTarget(arg)
		killed, survivors, err := t.try(ctx, o, known, out)
		if err != nil {
			return fmt.Errorf("%s: %w", t.dir, err)
		}
		total := killed + survivors
		fmt.Fprintf(out, "%s: %d of %d mutants killed\n", t.dir, killed, total)
		if total == 0 || killed*100 < o.min*total {
			weak = true
		}
	}
	if weak {
		return fmt.Errorf("fewer than %d %% were killed: write the test that is missing, or say in hack/mutate/answered.txt why a mutant changes nothing", o.min)
	}
	return nil
}

func parseTarget(arg string) target {
	dir, tests, _ := strings.Cut(arg, "=")
	t := target{dir: dir, tests: []string{dir}}
	if tests != "" {
		t.tests = append(t.tests, strings.Split(tests, ",")...)
	}
	return t
}

// try makes mutants until enough of them compiled.
func (t target) try(ctx context.Context, o options, known map[string]bool, out io.Writer) (killed, survivors int, err error) {
	sites, err := sitesIn(t.dir)
	if err != nil {
		return 0, 0, err
	}
	random := rand.New(rand.NewPCG(o.seed, 0))
	random.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for _, s := range sites {
		if killed+survivors == o.n {
			break
		}
		verdict, err := t.test(ctx, o, s, tmp)
		switch {
		case err != nil:
			return killed, survivors, err
		case verdict == invalid:
		case verdict == dead:
			killed++
		case known[s.String()]:
			fmt.Fprintf(out, "  answered  %s\n", s)
			killed++
		default:
			fmt.Fprintf(out, "  SURVIVED  %s (line %d)\n", s, s.line)
			survivors++
		}
	}
	return killed, survivors, nil
}

type verdict int

const (
	invalid verdict = iota // does not compile
	dead                   // a test failed
	alive
)

// buildTime is what building the tests may take on a busy machine: a mutant that is not built is not killed.
const buildTime = 30 * time.Minute

// test builds the tests with the mutant in the place of its file, and runs them.
func (t target) test(ctx context.Context, o options, s site, tmp string) (verdict, error) {
	mutant := filepath.Join(tmp, "mutant.go")
	if err := os.WriteFile(mutant, s.mutant, 0o600); err != nil {
		return invalid, err
	}
	absolute, err := filepath.Abs(s.file)
	if err != nil {
		return invalid, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: mutant}})
	if err != nil {
		return invalid, err
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return invalid, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout+buildTime)
	defer cancel()
	args := append([]string{"test", "-vet=off", "-failfast", "-timeout", o.timeout.String(), "-overlay", file}, t.tests...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the packages are typed by the user
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return alive, nil
	case bytes.Contains(said, []byte("[build failed]")):
		return invalid, nil
	}
	return dead, nil
}

// answers reads the explained survivors.
func answers(text string) map[string]bool {
	known := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		mutant, why, ok := strings.Cut(line, " # ")
		if ok && strings.TrimSpace(why) != "" {
			known[strings.TrimSpace(mutant)] = true
		}
	}
	return known
}
