package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// worldsOfALongRun is how many policies a run is divided among. Applying one takes longer than a thousand requests.
const worldsOfALongRun = 40

// MC-7, at length: PROVISO_DIFFER_MANAGED is how many requests there are, and PROVISO_DIFFER_FROM the first of the
// worlds, 1 if it is not said. Random policies are compiled and applied to a stock server, and the same random
// requests are decided by it and by a server of ours. Nothing is allowed there that ours refuses, and what it alone
// refuses is of a kind that the guide lists.
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
	// A controller makes these in every namespace, and the stock server has none. A deletecollection meets them.
	for _, n := range []string{"team", "other"} {
		stock.apply(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt","namespace":%q}}`, n), "--server-side")
		ours.await("the certificate of "+n, func() bool {
			_, err := ours.try("", "get", "configmap", "kube-root-ca.crt", "-n", n)
			return err == nil
		})
	}
	each := max(1000, total/worldsOfALongRun)
	all, before, sending := &differ.Result{}, (*differ.World)(nil), time.Duration(0)
	for seed := from; all.Requests < total; seed++ {
		w := differ.NewManagedWorld(seed)
		ours.policyOf(w)
		stock.compiledOf(t, w, before)
		before = w
		begin := time.Now()
		result, err := w.Compare(t.Context(), ours.end(), stock.end(), min(each, total-all.Requests), 4)
		if err != nil {
			t.Fatal(err)
		}
		sending += time.Since(begin)
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
	t.Logf("in all: %s; %.0f requests to both a second", all, float64(all.Requests)/sending.Seconds())
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
		Rules []struct {
			Rule string
			Lost []string
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range report.Rules {
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

// onlySize lets anna write config maps of one size in team, and a further user read them.
func onlySize(size, reader string) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"sized","namespace":"team"},"rules":[
  {"verbs":["create","update","delete"],"resourceKinds":["configmaps"],"where":"resource.metadata.?labels.size.orValue('') == '%s'","description":"only %[1]s ones"}]}
---
{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"sized","namespace":"team"},"roleRef":{"namespace":"team","name":"sized"},"userNames":["anna",%[2]q]}`, size, reader)
}

// MC-3, MC-7: while one policy after the other is applied, and in the end all of it removed, a probe tries all the
// time what no policy allows. MC-6: what an admin deletes or changes is seen by drift, and mended by the next apply.
func TestManagedClusterChanges(t *testing.T) {
	t.Parallel()
	s := startStock(t)
	s.apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`)
	dir := t.TempDir()
	apply := func(policy string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := s.compile(t, "apply", "-f", dir); err != nil {
			t.Fatalf("compile apply: %v\n%s", err, out)
		}
	}
	ask := func(size string) (int, string) {
		code, said, err := differ.Ask(t.Context(), s.end(), "anna", "POST", "/api/v1/namespaces/team/configmaps?dryRun=All",
			fmt.Sprintf(`{"metadata":{"name":"x","labels":{"size":%q}}}`, size))
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		return code, said
	}
	stop, ended, tries := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if code, said := ask("huge"); code != 403 {
				t.Errorf("the probe got %d: %s", code, said)
			}
			tries++
		}
	}()
	for i, size := range []string{"small", "big", "small"} {
		apply(onlySize(size, fmt.Sprint("reader", i)))
		s.await(size+" to be allowed", func() bool { code, _ := ask(size); return code == 201 })
	}
	if code, said := ask("big"); code != 403 || !strings.Contains(said, "was not met: only small ones") {
		t.Errorf("%d: %s", code, said)
	}
	s.tampered(t, dir)
	if out, err := s.compile(t, "apply", "--remove"); err != nil {
		t.Fatalf("compile apply --remove: %v\n%s", err, out)
	}
	s.await("nothing to be allowed", func() bool { code, _ := ask("small"); return code == 403 })
	close(stop)
	<-ended
	t.Logf("the probe tried %d times", tries)
	if tries < 100 {
		t.Error("it tried too seldom")
	}
}

// tampered changes and deletes compiled objects, one after the other: drift sees each of them, and apply mends it.
func (s *server) tampered(t *testing.T, dir string) {
	t.Helper()
	const ours = "app.kubernetes.io/managed-by=proviso-compile"
	drift := func() string {
		t.Helper()
		out, err := s.compile(t, "drift", "-f", dir)
		var code *exec.ExitError
		if err != nil && (!errors.As(err, &code) || code.ExitCode() != 2) {
			t.Fatalf("compile drift: %v\n%s", err, out)
		}
		return out
	}
	if out := drift(); !strings.Contains(out, "has what was compiled") {
		t.Fatal(out)
	}
	for _, of := range []string{"rolebindings", "roles", "validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
		s.kubectl("label", of, "-A", "-l", ours, "app.kubernetes.io/managed-by=hand", "--overwrite")
		if out := drift(); !strings.Contains(out, "changed: ") {
			t.Errorf("a label of %s: %s", of, out)
		}
		s.kubectl("label", of, "-A", "-l", "app.kubernetes.io/managed-by=hand", "app.kubernetes.io/managed-by=proviso-compile", "--overwrite")
	}
	name := strings.Fields(s.kubectl("get", "validatingadmissionpolicies", "-l", ours, "-o", "name"))[0]
	s.kubectl("patch", name, "--type=merge", "-p", `{"spec":{"failurePolicy":"Ignore"}}`)
	if out := drift(); !strings.Contains(out, "changed: ValidatingAdmissionPolicy ") {
		t.Error(out)
	}
	role := strings.Fields(s.kubectl("get", "roles", "-n", "team", "-l", ours, "-o", "name"))[0]
	s.kubectl("delete", role, "-n", "team")
	if out := drift(); !strings.Contains(out, "missing: Role team/") {
		t.Error(out)
	}
	if out, err := s.compile(t, "apply", "-f", dir); err != nil {
		t.Fatalf("compile apply: %v\n%s", err, out)
	}
	if out := drift(); !strings.Contains(out, "has what was compiled") {
		t.Error(out)
	}
}
