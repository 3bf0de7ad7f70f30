// Command prove runs the long proofs, measurements and chores that are not part of every commit, and lists them.
//
//	go run ./hack/prove                        a table: name, what it proves, how long it takes
//	go run ./hack/prove NAME [VARIABLE=VALUE]  run one, with variables as arguments or from the environment
//
// A proof is a short shell script in proofs.go, as a target of the Makefile would be. It runs in the root of the
// repository, with GO, TEST (go test as the Makefile runs it), BIN and, where binaries are built, PROVISO_BIN set.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	// Ctrl-C reaches the proof, too, which ends its servers; prove waits for it.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		list(out)
		return nil
	}
	p, err := find(args[0])
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	values, err := p.values(args[1:], os.Getenv)
	if err != nil {
		return err
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", p.text(values)) //nolint:gosec // the user who runs it has a shell anyway
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, append(os.Environ(), p.environment(root, values)...), os.Stdin, out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// list prints all proofs. Times are of two quiet cores, with everything built.
func list(out io.Writer) {
	fmt.Fprintln(out, "Usage: go run ./hack/prove NAME [VARIABLE=VALUE]...")
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTAKES\tWHAT IT PROVES")
	for _, p := range proofs {
		fmt.Fprintf(table, "%s\t%s\t%s%s\n", p.name, p.takes, p.proves, p.knobs())
	}
	_ = table.Flush()
}

// knobs are the variables of a proof with their defaults, those that fit into the table.
func (p proof) knobs() string {
	var all []string
	for _, v := range p.variables {
		value := v.value
		if len(value) > 20 {
			value = "…"
		}
		all = append(all, v.name+"="+value)
	}
	if len(all) == 0 {
		return ""
	}
	return " [" + strings.Join(all, " ") + "]"
}

func find(name string) (proof, error) {
	i := slices.IndexFunc(proofs, func(p proof) bool { return p.name == name })
	if i < 0 {
		return proof{}, fmt.Errorf("there is no proof %q: `go run ./hack/prove` lists them", name)
	}
	return proofs[i], nil
}

// values are the variables of a proof: an argument wins over the environment, and that over the default. One that is
// empty counts as not set, as it did for make.
func (p proof) values(args []string, getenv func(string) string) (map[string]string, error) {
	values := map[string]string{}
	for _, v := range p.variables {
		values[v.name] = v.value
		if value := getenv(v.name); value != "" {
			values[v.name] = value
		}
	}
	for _, pair := range args {
		name, value, _ := strings.Cut(pair, "=")
		if _, known := values[name]; !known {
			return nil, fmt.Errorf("%s does not know %q: `go run ./hack/prove` lists its variables", p.name, pair)
		}
		if value != "" {
			values[name] = value
		}
	}
	return values, nil
}

// text is the script that bash runs. Flags are put into it as they are, so that one may have quotes.
func (p proof) text(values map[string]string) string {
	script := p.script
	for name, value := range values {
		if strings.HasSuffix(name, "FLAGS") {
			script = strings.ReplaceAll(script, "$"+name, value)
		}
	}
	if p.needs >= chromium {
		script = "hack/chromium.sh\n" + script
	}
	if p.needs >= binaries {
		script = "make --no-print-directory build\n" + script
	}
	return script
}

// environment is what the script sees beside the environment of the caller.
func (p proof) environment(root string, values map[string]string) []string {
	goTool := cmp.Or(os.Getenv("GO"), "go")
	env := []string{"GO=" + goTool, "TEST=" + goTool + " test -ldflags=-w -vet=off", "BIN=" + filepath.Join(root, "bin")}
	if p.needs >= binaries {
		env = append(env, "PROVISO_BIN="+filepath.Join(root, "bin", "proviso"))
	}
	for name, value := range values {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// findRoot returns the root of the repository.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "prove")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("run it inside of the repository")
		}
		dir = parent
	}
}
