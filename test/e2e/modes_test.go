package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/stock"
)

const allOff = "ConditionalAuthorization=false,PolicyAuthorization=false,FieldPermissions=false,ProtectedAttributes=false,DynamicAudit=false"

// SV-4: with all systems off the server is stock: no group of ours, upstream's reviews, upstream's refusals.
func TestAllOffIsStock(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d", "--feature-gates", allOff)
	if out := s.kubectl("api-versions"); strings.Contains(out, "proviso") || strings.Contains(out, "auditregistration") || strings.Contains(out, "authorization.k8s.io/v1alpha1") {
		t.Errorf("groups of ours are served:\n%s", out)
	}
	if out := s.kubectl("get", "--raw", "/readyz?verbose"); strings.Contains(out, "policy-snapshot") {
		t.Errorf("a stage of ours is there:\n%s", out)
	}
	edgar, err := s.issue("edgar")
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.try("", "--kubeconfig", edgar, "get", "pods")
	if err == nil || !strings.Contains(out, `User "edgar" cannot list resource "pods" in API group "" in the namespace "default"`) {
		t.Errorf("edgar: %v\n%s", err, out)
	}
	s.kubectl("create", "rolebinding", "edgar", "--clusterrole=view", "--user=edgar")
	s.await("RBAC", func() bool {
		_, err := s.try("", "--kubeconfig", edgar, "get", "pods")
		return err == nil
	})
}

const gatedPolicy = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: gated}, rules: [{apiGroups: [""], resources: [configmaps, secrets], verbs: [get, patch, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: gated, namespace: default}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gated}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: edgar}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: gated, namespace: default}}
---
{apiVersion: v1, kind: Secret, metadata: {name: gated, namespace: default}, stringData: {word: open-sesame}}
`

const gatedRules = `
{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: locked}, spec: {resources: [configmaps], field: ".data[locked]", permission: example.com/locked, exclusive: true}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: hidden}, spec: {resources: [secrets], field: .data, permission: example.com/hidden, readExclusive: true}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: tier}, attributeKind: Label, attributeName: tier, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: keep, namespace: master}, rules: [{deny: true, verbs: [delete], resourceKinds: [configmaps]}]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: keep, namespace: master}, roleRef: {namespace: master, name: keep}, userNames: [edgar]}
---
{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: gated}, spec: {rules: [{verbs: [delete]}]}}
---
{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: gated}, spec: {policy: {level: None, rules: [{withAuditClass: gated, level: Metadata}]}, webhook: {clientConfig: {url: "https://audit.example.com/events"}}}}
`

// SV-4, FP-14: with all gates off, stored policy has no effect and is not lost. With the gates on again it holds as
// before, also for what was written meanwhile.
func TestGatesOffAndOn(t *testing.T) {
	t.Parallel()
	dir := tempDir(t) + "/d"
	s := serve(t, dir)
	s.apply(gatedPolicy)
	s.apply(gatedRules)
	stored := func(s *server) string {
		return s.kubectl("get", "fieldpermissions,clusterprotectedattributes,auditsinks,auditclasses,policies.policy.proviso.dev,policybindings.policy.proviso.dev", "-A", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name}/{.metadata.uid} {end}`)
	}
	attempts := [][]string{
		{"patch", "configmap", "gated", "--type=merge", "-p", `{"data":{"locked":"yes"}}`}, {"label", "configmap", "gated", "--overwrite", "tier=prod"}, {"delete", "configmap", "gated", "--dry-run=server"},
	}
	refused := func(s *server) (count int) {
		for _, args := range attempts {
			if out, err := s.try("", append([]string{"--as=edgar", "-n", "default"}, args...)...); err != nil && strings.Contains(out, "Forbidden") {
				count++
			}
		}
		if out := s.kubectl("--as=edgar", "get", "secret", "gated", "-n", "default", "-o", "jsonpath={.data.word}"); !strings.Contains(out, "b3Blbi1zZXNhbWU") {
			count++
		}
		return count
	}
	s.await("all of it to hold", func() bool { return refused(s) == 4 })
	before := stored(s)
	s.stop()

	s = serve(t, dir, "--agree", "--feature-gates", allOff+",ConditionalReads=false,HiddenFields=false")
	s.await("none of it to hold", func() bool { return refused(s) == 0 })
	s.stop()

	attempts[0][len(attempts[0])-1], attempts[1][len(attempts[1])-1] = `{"data":{"locked":"no"}}`, "tier=dev"
	s = serve(t, dir, "--agree")
	s.await("all of it to hold again", func() bool { return refused(s) == 4 })
	if after := stored(s); after != before {
		t.Errorf("stored were\n%s\nand are\n%s", before, after)
	}
}

// etcd is a real etcd in a process of its own, with mutual TLS.
type etcd struct {
	*process
	url, ca, cert, key string
}

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	bin := builtEtcd(t)
	dir := tempDir(t)
	files, err := pki.Ensure(dir, pki.Config{Port: 2379})
	if err != nil {
		t.Fatal(err)
	}
	client, peer := fmt.Sprintf("https://127.0.0.1:%d", freePort(t)), fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	e := &etcd{url: client, ca: files.EtcdCACert, cert: files.EtcdClientCert, key: files.EtcdClientKey}
	e.process = spawn(t, bin, "--data-dir", filepath.Join(dir, "data"), "--name", "e",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--client-cert-auth",
		"--trusted-ca-file", files.EtcdCACert, "--cert-file", files.EtcdServerCert, "--key-file", files.EtcdServerKey,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "e="+peer)
	e.await("etcd", func() bool { return strings.Contains(e.output.String(), "ready to serve client requests") })
	return e
}

func (e *etcd) flags() []string {
	return []string{"--etcd-servers", e.url, "--etcd-cafile", e.ca, "--etcd-certfile", e.cert, "--etcd-keyfile", e.key}
}

// SV-2: replicas on one external etcd with TLS form one control plane; the controllers run once, and move when their
// server is killed.
func TestReplicasOnExternalEtcd(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	first := tempDir(t) + "/a"
	a := serve(t, first, append(e.flags(), "--controllers", "*")...)
	if _, err := os.Stat(filepath.Join(first, "etcd")); err == nil {
		t.Error("an embedded etcd was started beside the external one")
	}
	// Replicas share one PKI.
	second := tempDir(t) + "/b"
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir -m 700 %[2]s && cp -rp %[1]s/pki %[2]s/pki", first, second)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := serve(t, second, append(e.flags(), "--controllers", "*")...)
	if !strings.Contains(b.output.String(), "run by another replica") {
		t.Errorf("both replicas run the controllers:\n%s", b.output)
	}

	// SV-14: one with other gates is not ready, and says why.
	third := tempDir(t) + "/c"
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir -m 700 %[2]s && cp -rp %[1]s/pki %[2]s/pki", first, third)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := launch(t, third, append(e.flags(), "--feature-gates", "FieldPermissions=false")...)
	c.await("the reason", func() bool {
		return strings.Contains(c.output.String(), "NOT READY: ") && strings.Contains(c.output.String(), "feature gate FieldPermissions is false here and true in the record")
	})
	c.kill()

	a.kubectl("create", "namespace", "shared")
	b.await("the other replica to see it", func() bool {
		_, err := b.try("", "get", "namespace", "shared")
		return err == nil
	})
	// The same policy decides on both.
	edgar, err := a.issue("edgar")
	if err != nil {
		t.Fatal(err)
	}
	a.kubectl("create", "rolebinding", "edgar", "--clusterrole=view", "--user=edgar", "-n", "shared")
	b.await("the other replica to let edgar in", func() bool {
		_, err := b.try("", "--kubeconfig", edgar, "--server", fmt.Sprintf("https://127.0.0.1:%d", b.port), "get", "pods", "-n", "shared")
		return err == nil
	})

	a.kill()
	b.kubectl("create", "namespace", "after")
	b.await("the controllers to move", func() bool {
		_, err := b.try("", "get", "serviceaccount", "default", "-n", "after")
		return err == nil
	})
}

// SV-2: a kube-apiserver command line as kubeadm writes it runs unchanged, generates nothing and runs no controllers;
// Policy is put first in its chain.
func TestDropInForKubeAPIServer(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	dir := tempDir(t)
	port := freePort(t)
	f, err := pki.Ensure(dir, pki.Config{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: dir, port: port, kubeconfig: f.AdminKubeconfig}
	// Under the name of kube-apiserver it needs no further word.
	link := filepath.Join(tempDir(t), "kube-apiserver")
	if err := os.Symlink(binary(t), link); err != nil {
		t.Fatal(err)
	}
	s.process = spawn(t, link, slices.Concat([]string{"--logging-format=json", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname"}, stock.ServerFlags(f, port), e.flags())...)
	s.await("readiness", func() bool {
		_, err := s.try("", "get", "--raw", "/readyz")
		return err == nil
	})
	if entries, err := os.ReadDir(s.cmd.Dir); err != nil || len(entries) > 0 {
		t.Errorf("the drop-in left files where it was started: %v %v", entries, err)
	}
	// SV-13: logs as JSON, and every line of them; a system that is off says so; kube-apiserver's own metrics are
	// there.
	for line := range strings.Lines(s.output.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("not JSON: %s", line)
		}
	}
	if !strings.Contains(s.output.String(), "--audit-dynamic-spool-dir") {
		t.Errorf("nobody is told that dynamic audit is off:\n%s", s.output)
	}
	if out := s.kubectl("get", "--raw", "/metrics"); !strings.Contains(out, "kubernetes_build_info{") || !strings.Contains(out, "rest_client_requests_total{") {
		t.Error("metrics of kube-apiserver are missing")
	}
	// No controllers: nobody makes a service account.
	s.kubectl("create", "namespace", "bare")
	if out, err := s.try("", "get", "lease", "proviso-controllers", "-n", "kube-system"); err == nil {
		t.Errorf("controllers run beside somebody's controller manager:\n%s", out)
	}
	// Policy decides here too, although nobody listed it.
	edgar, err := s.issue("edgar")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(grantConfigMaps)
	s.await("edgar to be let in by a policy", func() bool {
		_, err := s.try("", "--kubeconfig", edgar, "get", "configmaps", "-n", "bare")
		return err == nil
	})
}

const grantConfigMaps = `
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: bare}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: bare, namespace: bare}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: reader, namespace: bare}
rules: [{verbs: [list], resourceKinds: [ConfigMap]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: edgar, namespace: bare}
roleRef: {namespace: bare, name: reader}
userNames: [edgar]
`
