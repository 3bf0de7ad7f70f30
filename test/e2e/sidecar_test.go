package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/pki"
)

// pair is a stock kube-apiserver and a side-car that `sidecar init` alone has set up.
type pair struct {
	*server
	side string // the side-car's directory
	car  *process
}

// SV-5, SC-1, SC-2, SC-3: on a real stock server, set up by init alone, what is conditional is decided by the object;
// without the webhook's manifest it folds; without the side-car nobody is let in; and the pair recovers by itself.
func TestSidecarBesideAStockServer(t *testing.T) {
	p := startPair(t)
	p.kubectl("apply", "-f", filepath.Join(p.side, "cluster.yaml"))
	p.honoured()
	p.kubectl("create", "namespace", "team")
	p.apply(sidecarPolicy)

	p.refused("zoe", sized("stranger", "small"), "cannot create")
	p.allowed("anna", sized("met", "small"))
	p.refused("anna", sized("unmet", "big"), "was not met")
	p.allowed("rob", sized("rbac", "big"))

	manifest := filepath.Join(p.side, "static", "proviso.yaml")
	if err := os.Rename(manifest, filepath.Join(p.side, "away")); err != nil {
		t.Fatal(err)
	}
	p.await("the side-car to see it", func() bool {
		out, _ := p.check()
		return strings.Contains(out, "proviso.yaml is missing") && strings.Contains(out, "conditions are not honoured")
	})
	p.refused("anna", sized("folded", "small"), "not honoured")
	if err := os.Rename(filepath.Join(p.side, "away"), manifest); err != nil {
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

func startPair(t *testing.T) *pair {
	t.Helper()
	bin, dir := buildStock(t), tempDir(t)
	p := &pair{server: &server{dir: dir, port: freePort(t), kubeconfig: filepath.Join(dir, "admin.kubeconfig")}, side: filepath.Join(dir, "s")}
	f, err := pki.Ensure(dir, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: p.port})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary(t), "sidecar", "init", "--out", p.side, "--pki-dir", filepath.Dir(f.CACert), "--server", fmt.Sprintf("https://127.0.0.1:%d", p.port),
		"--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t))).CombinedOutput()
	if err != nil {
		t.Fatalf("sidecar init: %v\n%s", err, out)
	}
	flags, err := os.ReadFile(filepath.Join(p.side, "kube-apiserver.flags"))
	if err != nil {
		t.Fatal(err)
	}
	store, peers := fmt.Sprintf("http://127.0.0.1:%d", freePort(t)), fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	spawn(t, builtEtcd(t), "--data-dir", filepath.Join(dir, "e"), "--log-level", "error", "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	p.run(t)
	p.process = spawn(t, bin, append([]string{"--etcd-servers", store, "--secure-port", fmt.Sprint(p.port), "--bind-address", "127.0.0.1",
		"--tls-cert-file", f.ServingCert, "--tls-private-key-file", f.ServingKey, "--client-ca-file", f.CACert, "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", f.SAPub, "--service-account-signing-key-file", f.SAKey,
		"--requestheader-client-ca-file", f.FrontProxyCACert, "--requestheader-allowed-names", pki.ProxyClientName, "--requestheader-username-headers", "X-Remote-User",
		"--requestheader-group-headers", "X-Remote-Group", "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", f.ProxyClientCert, "--proxy-client-key-file", f.ProxyClientKey}, strings.Fields(string(flags))...)...)
	p.await("readiness", func() bool { _, err := p.try("", "get", "--raw", "/readyz"); return err == nil })
	return p
}

// buildStock builds the stock kube-apiserver from the modules of this repository, with the version that it would be
// released as.
func buildStock(t *testing.T) string {
	t.Helper()
	binary(t)
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(tempDir(t), "kube-apiserver")
	flags := fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s", "k8s.io/component-base/version", strings.TrimSpace(string(version)), strings.Split(string(version), ".")[1])
	if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", bin, "k8s.io/kubernetes/cmd/kube-apiserver").CombinedOutput(); err != nil {
		t.Fatalf("building kube-apiserver: %v\n%s", err, out)
	}
	return bin
}

// run starts the side-car.
func (p *pair) run(t *testing.T) {
	t.Helper()
	p.car = spawn(t, binary(t), "sidecar", "--dir", p.side)
}

// check is what `sidecar check` says.
func (p *pair) check() (string, bool) {
	out, err := exec.Command(binary(p.t), "sidecar", "check", "--dir", p.side).CombinedOutput()
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
