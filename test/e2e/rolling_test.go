package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// TestRollingUpgrade: OP-4, SV-14, PO-25. Two replicas of different versions serve one etcd: `go run ./hack/prove
// rolling`. The newer one is this release with one more field. Nothing that was acknowledged is lost, both serve what
// is stored and decide the same, the field is not stored while the older one serves, and the older one does not serve
// while the field is stored.
func TestRollingUpgrade(t *testing.T) {
	older, newer := binary(t), os.Getenv("PROVISO_NEWER")
	if newer == "" {
		t.Skip("run go run ./hack/prove rolling: it builds a version that knows one field more")
	}
	cluster := startEtcdCluster(t)
	first, second := tempDir(t)+"/a", tempDir(t)+"/b"
	begin := func(name, program, dir string) *replica {
		r := &replica{name: name, port: fmt.Sprint(freePort(t))}
		r.server = launchOf(t, program, dir, append(cluster.flags(), keptGates, "--controllers", "*", "--secure-port", r.port)...)
		return r
	}
	ready := func(r *replica) bool { return strings.Contains(r.output.String(), "Ready in") }
	a := begin("older", older, first)
	a.await("readiness", func() bool { return ready(a) })
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir -m 700 %[2]s && cp -rp %[1]s/pki %[2]s/pki", first, second)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a.apply(localPolicy("shared", `[{verbs: [list], resourceKinds: [configmaps]}]`))

	kept, err := os.ReadFile(keptObjects)
	if err != nil {
		t.Fatal(err)
	}
	a.apply(string(kept))

	b := begin("newer", newer, second)
	b.await("readiness", func() bool { return ready(b) })
	end := make(chan struct{})
	var writers sync.WaitGroup
	for _, r := range []*replica{a, b} {
		writers.Go(func() { r.write(end) })
	}

	// Each learns what is written through the other.
	const users = 6
	want := make([]string, users)
	for i, through := range []*replica{a, b, a, b, a, b} {
		want[i] = "200"
		if i%3 == 2 {
			want[i] = "403"
		}
		through.apply(fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: user-%[1]d, namespace: shared}, roleRef: {namespace: shared, name: edgar}, userNames: [user-%[1]d]}", i))
		if want[i] == "403" {
			other := map[*replica]*replica{a: b, b: a}[through]
			other.kubectl("delete", "rolebinding.authorization.proviso.dev", fmt.Sprintf("user-%d", i), "-n", "shared")
		}
	}
	for _, r := range []*replica{a, b} {
		r.await(fmt.Sprintf("%s to decide %v", r.name, want), func() bool { return r.decides(users) == strings.Join(want, " ") })
	}

	for _, r := range []*replica{a, b} {
		r.servesKept()
	}
	const later = `{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: later},
spec: {resources: [pods], field: .spec.hostIPC, permission: example.com/later, later: "yes"}}`
	if out, err := b.try(later, "create", "--validate=ignore", "-f", "-"); err == nil || !strings.Contains(out, "Conflict") {
		t.Errorf("a field that the older replica does not know: %v\n%s", err, out)
	}

	// The older one is replaced; the field can be stored as soon as it is gone.
	served := a.count.Load()
	a.stop()
	c := begin("replaced", newer, first)
	c.await("readiness", func() bool { return ready(c) })
	b.await("the field to be stored", func() bool {
		_, err := b.try(later, "create", "--validate=ignore", "-f", "-")
		return err == nil
	})
	c.servesKept()
	close(end)
	writers.Wait()
	if served < 20 || b.count.Load() < 20 {
		t.Errorf("%d and %d writes: too few were in flight", served, b.count.Load())
	}
	names := map[string]bool{}
	for _, name := range strings.Fields(c.kubectl("get", "configmaps", "-n", "default", "-o", "jsonpath={.items[*].metadata.name}")) {
		names[name] = true
	}
	for _, writer := range []*replica{a, b} {
		for _, name := range writer.acknowledged {
			if !names[name] {
				t.Errorf("%s, acknowledged by %s, is missing", name, writer.name)
			}
		}
	}
	for _, r := range []*replica{b, c} {
		r.await(fmt.Sprintf("%s to decide %v", r.name, want), func() bool { return r.decides(users) == strings.Join(want, " ") })
	}

	// Downgrade: the older version does not serve while the field is stored, and says why.
	c.stop()
	d := begin("downgraded", older, first)
	d.await("the reason", func() bool { return strings.Contains(d.output.String(), "FieldPermission") })
	if code, text := d.callerAs("user-0").send("", "GET", "/api/v1/namespaces/shared/configmaps", nil); code == http.StatusOK {
		t.Errorf("the older version serves: %d %s", code, text)
	}
	if ready(d) {
		t.Error("the older version says that it is ready")
	}
	if !strings.Contains(b.decides(users), "200") {
		t.Error("the newer one does not serve beside it")
	}
}
