package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/test/stock/differ"
)

// MC-5: what `proviso test --target vap` says of a dump of a cluster is what the cluster decides.
func TestManagedClusterIsTestedFromADump(t *testing.T) {
	t.Parallel()
	s := startStock(t)
	s.await("the population", func() bool { _, err := s.try(differ.Population(), "apply", "-f", "-"); return err == nil })
	s.await("the custom resource", func() bool { _, err := s.try("", "get", "widgets"); return err == nil })
	w := differ.NewManagedWorld(2)
	s.compiledOf(t, w, nil)
	dump, err := s.try("", "get", "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings,roles,rolebindings,customresourcedefinitions", "-A", "-o", "yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, dump)
	}
	dir := t.TempDir()
	var cases strings.Builder
	counts := map[string]int{}
	for i, r := range w.Creates(400) {
		allowed, err := differ.Allowed(t.Context(), s.end(), r)
		if err != nil {
			t.Fatal(err)
		}
		decision := map[bool]string{true: "Allow", false: "Deny"}[allowed]
		counts[decision]++
		groups, err := json.Marshal(append([]string{}, r.Groups...))
		if err != nil {
			t.Fatal(err)
		}
		_, place, _ := strings.Cut(r.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(place, "/")
		fmt.Fprintf(&cases, "- {name: case %d, user: %s, groups: %s, verb: create, resource: %s, namespace: %s, object: %s, expect: {decision: %s}}\n", i, r.User, groups, r.Resource, namespace, r.Body, decision)
	}
	head := "apiVersion: tools.proviso.dev/v1alpha1\nkind: PolicyTest\nmetadata: {name: there}\npolicies: [dump.yaml]\ncases:\n"
	for name, text := range map[string]string{"dump.yaml": dump, "there.test.yaml": head + cases.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), binary(t), "test", dir, "--target", "vap").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(counts)
	if counts["Allow"] == 0 || counts["Deny"] == 0 {
		t.Error("it decides nothing")
	}
}
