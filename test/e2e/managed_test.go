package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"proviso.dev/proviso/test/stock"
	"proviso.dev/proviso/test/stock/differ"
)

// startStock starts a stock kube-apiserver as a provider would: with RBAC, and without anything of ours.
func startStock(t *testing.T) *server {
	t.Helper()
	p, err := stock.Prepare(stock.Config{Proviso: binary(t), Dir: tempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	spawn(t, p.Etcd[0], p.Etcd[1:]...)
	s := &server{dir: p.Dir, port: p.Port, kubeconfig: p.Kubeconfig}
	flags := p.Alone()
	s.process = spawn(t, flags[0], flags[1:]...)
	s.await("readiness", func() bool { _, err := s.try("", "get", "--raw", "/readyz"); return err == nil })
	return s
}

// compile runs a command of `proviso compile` for the cluster, and returns what it says.
func (s *server) compile(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t), append([]string{"compile"}, append(args, "--kubeconfig", s.kubeconfig)...)...).CombinedOutput()
	return string(out), err
}

// MC-7, at length: PROVISO_DIFFER_MANAGED is how many requests there are, and PROVISO_DIFFER_FROM the first of the
// worlds, 1 if it is not said. Random policies are compiled and applied to a stock server, and the same random requests
// are decided by it and by a server of ours. Nothing is allowed there that ours refuses, and what it alone refuses is of a
// kind that the guide lists.
func TestManagedClusterDecidesAsAServerDoes(t *testing.T) {
	total, err := strconv.Atoi(cmp.Or(os.Getenv("PROVISO_DIFFER_MANAGED"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	from, err := strconv.ParseUint(cmp.Or(os.Getenv("PROVISO_DIFFER_FROM"), "1"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	stock, ours := startStock(t), serve(t, tempDir(t))
	defer ours.stop()
	for _, one := range []*server{stock, ours} {
		one.await("the population", func() bool { _, err := one.try(differ.Population(), "apply", "-f", "-"); return err == nil })
		one.await("the custom resource", func() bool { _, err := one.try("", "get", "widgets"); return err == nil })
		one.apply(differ.Objects(), "--server-side")
	}
	const each = 1000
	all, before := &differ.Result{}, (*differ.World)(nil)
	for seed := from; all.Requests < total; seed++ {
		w := differ.NewManagedWorld(seed)
		ours.policyOf(w)
		stock.compiledOf(t, w, before)
		before = w
		result, err := w.Compare(t.Context(), ours.end(), stock.end(), min(each, total-all.Requests), 4)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(result)
		t.Logf("world %d: %s", seed, result)
		for _, wrong := range result.Wrong[:min(len(result.Wrong), 5)] {
			t.Errorf("world %d: %s", seed, wrong)
		}
		if len(result.Wrong) > 0 {
			t.Logf("policy:\n%s", w.Policy())
			break
		}
	}
	t.Logf("in all: %s", all)
	if all.BothPass == 0 || all.BothRefuse == 0 {
		t.Error("the test decides nothing")
	}
}

// compiledOf compiles the policy of a world and applies it in the place of the one before.
func (s *server) compiledOf(t *testing.T, w, before *differ.World) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"policy.yaml": w.Compiled(), "population.yaml": differ.Population()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.apply(w.Besides())
	out, err := s.compile(t, append([]string{"apply", "-f", dir}, lostOf(t, dir)...)...)
	if err != nil {
		t.Fatalf("compile apply: %v\n%s\n%s", err, out, w.Compiled())
	}
	markers := w.Markers()
	if before != nil {
		markers = append(markers, before.Gone()...)
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "removed ValidatingAdmissionPolicy "); ok {
			markers = append(markers, differ.Unguarded(name))
		}
	}
	for _, marker := range markers {
		s.await("the compiled policy to be known: "+marker.String(), func() bool {
			ok, err := marker.Holds(t.Context(), s.end())
			return ok && err == nil
		})
	}
	if out, err := s.compile(t, append([]string{"drift", "-f", dir}, lostOf(t, dir)...)...); err != nil {
		t.Fatalf("compile drift: %v\n%s", err, out)
	}
}

// lostOf are the flags to do without what cannot be had of the policy. No request of a world is about it.
func lostOf(t *testing.T, dir string) (flags []string) {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), binary(t), "compile", "-f", dir, "-o", "json").Output()
	var report struct {
		Findings []struct {
			Rule string
			Lost []string
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range report.Findings {
		for _, lost := range f.Lost {
			if !strings.HasPrefix(lost, "denies of what admission policies do not see") {
				t.Fatalf("%s: %s", f.Rule, lost)
			}
		}
		if len(f.Lost) > 0 {
			flags = append(flags, "--accept", f.Rule)
		}
	}
	return flags
}
