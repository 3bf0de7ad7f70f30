package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/test/stock"
)

// pair is a stock kube-apiserver and a side-car that `sidecar init` alone has set up.
type pair struct {
	*stock.Pair
	*server
	car *process
}

// SV-5, SC-1, SC-2, SC-3: on a real stock server, set up by init alone, what is conditional is decided by the object;
// without the webhook's manifest it folds; without the side-car nobody is let in; and the pair recovers by itself.
func TestSidecarBesideAStockServer(t *testing.T) {
	p := startPair(t)
	p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
	p.honoured()
	p.kubectl("create", "namespace", "team")
	p.apply(sidecarPolicy)

	p.refused("zoe", sized("stranger", "small"), "cannot create")
	p.allowed("anna", sized("met", "small"))
	p.refused("anna", sized("unmet", "big"), "was not met")
	p.allowed("rob", sized("rbac", "big"))

	manifest := filepath.Join(p.Side, "static", "proviso.yaml")
	if err := os.Rename(manifest, filepath.Join(p.Side, "away")); err != nil {
		t.Fatal(err)
	}
	p.await("the side-car to see it", func() bool {
		out, _ := p.check()
		return strings.Contains(out, "proviso.yaml is missing") && strings.Contains(out, "conditions are not honoured")
	})
	p.refused("anna", sized("folded", "small"), "not honoured")
	if err := os.Rename(filepath.Join(p.Side, "away"), manifest); err != nil {
		t.Fatal(err)
	}
	p.honoured()
	p.allowed("anna", sized("again", "small"))

	p.car.kill()
	p.refused("rob", sized("down", "small"), "")
	p.kubectl("get", "namespace", "team") // a cluster admin mends it
	p.run(t)
	p.honoured()
	p.allowed("anna", sized("restarted", "small"))
}

const sidecarPolicy = `apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: team}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: team, namespace: team}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: small, namespace: team}
rules: [{verbs: [create], resourceKinds: [configmaps], when: 'object.metadata.?labels.size.orValue("") == "small"'}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: small, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [anna]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}]
`

func sized(name, size string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: team, labels: {size: %s}}\n", name, size)
}

func startPair(t *testing.T, init ...string) *pair {
	t.Helper()
	set, err := stock.Prepare(stock.Config{Proviso: binary(t), Dir: tempDir(t), Init: init})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{Pair: set, server: &server{dir: set.Dir, port: set.Port, kubeconfig: set.Kubeconfig}}
	spawn(t, set.Etcd[0], set.Etcd[1:]...)
	p.run(t)
	p.serve(t)
	return p
}

// serve starts the API server.
func (p *pair) serve(t *testing.T) {
	t.Helper()
	p.process = spawn(t, p.Server[0], p.Server[1:]...)
	p.await("readiness", func() bool { _, err := p.try("", "get", "--raw", "/readyz"); return err == nil })
}

// run starts the side-car.
func (p *pair) run(t *testing.T) {
	t.Helper()
	p.car = spawn(t, p.Car[0], p.Car[1:]...)
}

// check is what `sidecar check` says.
func (p *pair) check() (string, bool) {
	out, err := exec.Command(binary(p.t), "sidecar", "check", "--dir", p.Side).CombinedOutput()
	return string(out), err == nil
}

// honoured waits until conditions are.
func (p *pair) honoured() {
	p.t.Helper()
	said := ""
	p.await("conditions to be honoured", func() bool {
		var ok bool
		said, ok = p.check()
		return ok
	})
	if !strings.Contains(said, "Conditions are honoured.") {
		p.t.Errorf("check says %s", said)
	}
}

func (p *pair) as(user, manifest string) (string, error) {
	return p.try(manifest, "create", "--validate=false", "--as", user, "-f", "-")
}

// allowed waits: a proof lasts a second, and a busy machine may miss one.
func (p *pair) allowed(user, manifest string) {
	p.t.Helper()
	p.await(user+" to be allowed", func() bool { _, err := p.as(user, manifest); return err == nil })
}

// refused is at once, or as soon as the policy is known, and then for the reason that is expected.
func (p *pair) refused(user, manifest, why string) {
	p.t.Helper()
	said := ""
	p.await(user+" to be refused with "+why, func() bool {
		out, err := p.as(user, manifest)
		if err == nil {
			p.t.Fatalf("%s is allowed\n%s", user, manifest)
		}
		said = out
		return strings.Contains(said, why)
	})
}
