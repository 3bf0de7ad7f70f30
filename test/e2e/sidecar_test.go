package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proviso.dev/proviso/test/stock"
)

// pair is a stock kube-apiserver and a sidecar that `sidecar init` alone has set up.
type pair struct {
	*stock.Pair
	*server
	car     *process
	started int
	// liveness is what the static pod has the kubelet ask.
	liveness *corev1.HTTPGetAction
}

// SV-5, SC-1, SC-2, SC-3, SC-11: on a real stock server, set up by init alone, each system decides as it does in a
// server of ours; and whatever fails, nothing passes that should not.
func TestSidecarBesideAStockServer(t *testing.T) {
	t.Parallel()
	sink := collect(t, false)
	p := startPair(t, "--audit-dynamic-allow-insecure-sinks")
	p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
	p.honoured()
	p.kubectl("create", "namespace", "team")
	p.apply(sidecarPolicy + fmt.Sprintf(sidecarSink, sink.URL))
	p.conditions()
	p.fields()
	p.attributes()
	p.denies()
	p.audit(sink)
	p.tail()
	p.lives(t)
	p.slow(t)
	p.advice()
	p.documented()
	p.aggregated()
	p.faults(t)
}

// SC-2, SC-3, SC-10, SC-12: the same for an API server that routes to endpoints and has no audit log: the sidecar is
// found by the machine's address, takes events from the webhook, and keeps policy in the cluster's etcd.
func TestSidecarByAddress(t *testing.T) {
	t.Parallel()
	address := addressOfThisMachine(t)
	sink := collect(t, false)
	p := startPairOf(t, stock.Config{SharedEtcd: true, Server: []string{"--enable-aggregator-routing"},
		Init: []string{"--audit-dynamic-allow-insecure-sinks", "--service=clusterip", "--advertise-address=" + address, "--audit=webhook"}})
	p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
	p.honoured()
	p.differ(t, 1, 300)
	p.apply(sidecarPolicy + fmt.Sprintf(sidecarSink, sink.URL))
	p.conditions()
	p.audit(sink)
	p.clock(t)
	// Whoever is no API server learns nothing there, and proves nothing.
	for _, path := range []string{"/proviso/authorize", "/proviso/admit", "/proviso/audit", "/proviso/state", "/metrics", "/apis/policy.proviso.dev/v1alpha1/policies"} {
		_, port, _ := net.SplitHostPort(p.Listen)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Post("https://"+net.JoinHostPort(address, port)+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stranger gets %s for %s", resp.Status, path)
		}
	}
}

// addressOfThisMachine is one that a Service can have: not on loopback.
func addressOfThisMachine(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback: nothing was tried")
	return ""
}

// conditions: CA-22 beside a stock server.
func (p *pair) conditions() {
	p.t.Helper()
	p.refused("zoe", sized("stranger", "small"), "cannot create")
	p.allowed("anna", sized("met", "small"))
	p.refused("anna", sized("unmet", "big"), "was not met")
	p.allowed("rob", sized("rbac", "big"))
	if out, err := p.try("", "auth", "can-i", "create", "configmaps.v1.", "-n", "team", "--as", "anna"); err == nil {
		p.t.Errorf("a review through the API says yes where the object decides: %s", out)
	}
	p.asked()
}

// asked: SC-19, the questions are answered beside a stock server, or say in one line what it cannot tell.
func (p *pair) asked() {
	p.t.Helper()
	for _, ask := range []struct {
		args, want string
		code       int
	}{
		{"can-i create configmaps -n team --as anna", "size", 2},
		{"can-i create configmaps -n team --as zoe", "no", 1},
		{"can-i create configmaps -n team --as rob", "", 0},
		{"can-i --list -n team --as anna", "size", 0},
		{"explain create configmaps -n team --as anna", "size", 2},
		{"who-can create configmaps -n team", "anna", 0},
		{"history", "the audit log of a stock server says who changed what", 3},
	} {
		out, code := p.proviso(p.kubeconfig, strings.Fields(ask.args)...)
		if code != ask.code || !strings.Contains(out, ask.want) || strings.Contains(out, "with `proviso can-i`") {
			p.t.Errorf("%s: exit code %d\n%s", ask.args, code, out)
		}
	}
}

// fields: FP-11 beside a stock server. One permission to one field, and one field that general writers may not touch.
func (p *pair) fields() {
	p.t.Helper()
	p.does("finn", true, "label", "configmap", "met", "y.example.com/a=1")
	p.does("finn", false, "label", "configmap", "met", "z.example.com/a=1")
	p.does("finn", false, "delete", "configmap", "met")
	p.does("rob", true, "label", "configmap", "met", "free=1")
	p.does("rob", false, "label", "configmap", "met", "tier=gold")
}

// attributes: PA-12 beside a stock server.
func (p *pair) attributes() {
	p.t.Helper()
	p.refused("rob", configMapWith("owned", "owner", "rob"), "owner")
	p.allowed("kim", configMapWith("owned", "owner", "kim"))
	p.does("rob", false, "label", "configmap", "owned", "owner-")
}

// denies: PO-13 beside a stock server. A deny of Policy holds against RBAC.
func (p *pair) denies() {
	p.t.Helper()
	p.does("rob", false, "label", "configmap", "owned", "free=1")
	p.does("rob", true, "label", "configmap", "rbac", "free=1")
	p.does("rob", true, "delete", "configmap", "rbac")
	if _, err := p.try("", "delete", "validatingwebhookconfiguration", "proviso.static.k8s.io"); err == nil {
		p.t.Error("the webhook can be taken away through the API")
	}
}

// documented: SC-2. The API server has our documents: `kubectl explain` reads one form of them, older clients read the
// other.
func (p *pair) documented() {
	p.t.Helper()
	p.await("our groups to be documented", func() bool {
		if _, err := p.try("", "explain", "policies.status.roles", "--api-version=policy.proviso.dev/v1alpha1"); err != nil {
			return false
		}
		out, err := p.try("", "get", "--raw", "/openapi/v2")
		return err == nil && strings.Contains(out, "/apis/policy.proviso.dev/v1alpha1/")
	})
}

// aggregated: SC-5, SC-9. A cluster admin who is not exempt manages APIServices, but for those of our groups.
func (p *pair) aggregated() {
	p.t.Helper()
	p.kubectl("create", "clusterrolebinding", "ada", "--clusterrole=cluster-admin", "--user=ada")
	p.does("ada", true, "label", "apiservice", "v1.apps", "free=1")
	p.does("ada", false, "delete", "apiservice", "v1alpha1.policy.proviso.dev", "--dry-run=server")
	p.does("ada", false, "patch", "apiservice", "v1alpha1.policy.proviso.dev", "--type=merge", "-p", `{"spec": {"insecureSkipTLSVerify": true, "caBundle": null}}`, "--dry-run=server")
	p.does("ada", false, "patch", "service", "proviso", "-n", "proviso-system", "--type=merge", "-p", `{"spec": {"externalName": "example.com"}}`, "--dry-run=server")
}

// audit: DA-14 beside a stock server. What was refused is in the sink, at its own level.
func (p *pair) audit(sink *collector) {
	p.t.Helper()
	p.await("the refusal to be in the sink", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		for _, events := range sink.events {
			for _, e := range events {
				if e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "anna" && e.Verb == "create" && e.ResponseStatus != nil && e.ResponseStatus.Code == 403 && e.Level == "Metadata" {
					return true
				}
			}
		}
		return false
	})
}

// tail: DA-13 beside a stock server. Live events come from the sidecar, to whoever may write a sink and nobody else.
func (p *pair) tail() {
	p.t.Helper()
	tail := spawn(p.t, binary(p.t), "audit", "tail", "--kubeconfig", p.kubeconfig, "--resource", "configmaps", "-n", "team")
	tail.await("the stream to begin", func() bool { return strings.Contains(tail.output.String(), "Showing audit events") })
	tail.await("a refusal in it", func() bool {
		_, _ = p.as("anna", sized("tailed", "big"))
		return strings.Contains(tail.output.String(), " as anna  create  /api/v1/namespaces/team/configmaps")
	})
	p.t.Logf("audit tail shows\n%s", tail.output)
	tail.signal(syscall.SIGINT)
	if code := tail.wait(); code != 0 {
		p.t.Errorf("audit tail ends with %d\n%s", code, tail.output)
	}
	out, err := exec.Command(binary(p.t), "audit", "tail", "--kubeconfig", p.kubeconfig, "--as", "rob").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "orbidden") {
		p.t.Errorf("rob sees what everybody does: %s", out)
	}
}

// advice: SC-8, SC-10. Whoever binds exempt callers is warned, and check tells what does not hold here.
func (p *pair) advice() {
	p.t.Helper()
	out := p.apply("apiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: nodes, namespace: team}\nroleRef: {namespace: team, name: small}\ngroupNames: [system:nodes]\n")
	if !strings.Contains(out, "Warning: role binding nodes is for group system:nodes") {
		p.t.Errorf("nobody is warned: %s", out)
	}
	p.kubectl("patch", "auditsink", "all", "--type=merge", "-p", `{"spec": {"policy": {"level": "Request"}}}`)
	p.await("check to tell", func() bool {
		out, ok := p.check()
		return ok && strings.Contains(out, "warning: role binding team/nodes") && strings.Contains(out, "warning: audit sink all asks for level Request")
	})
}

const sidecarSink = `---
apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditSink
metadata: {name: all}
spec: {policy: {level: Metadata}, webhook: {clientConfig: {url: %q}}}
`

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
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: careful, namespace: team}
rules: [{deny: true, verbs: [update, patch], resourceKinds: [configmaps], when: '"owner" in oldObject.metadata.?labels.orValue({})'}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: careful, namespace: team}
roleRef: {namespace: team, name: careful}
userNames: [rob]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: owner}
attributeKind: Label
attributeName: owner
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keepers}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keepers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
subjects: [{kind: User, name: kim, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: tier}
spec: {resources: [configmaps], field: ".metadata.labels[tier]", permission: example.com/tier, exclusive: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: labeller, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, granular, "granular:label(y.example.com)"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: labeller, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: labeller}
subjects: [{kind: User, name: finn, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, update, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: kim, apiGroup: rbac.authorization.k8s.io}]
`

func sized(name, size string) string { return configMapWith(name, "size", size) }

func configMapWith(name, label, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: team, labels: {%s: %s}}\n", name, label, value)
}

func startPair(t *testing.T, init ...string) *pair {
	t.Helper()
	return startPairOf(t, stock.Config{Init: init})
}

func startPairOf(t *testing.T, cfg stock.Config) *pair {
	t.Helper()
	cfg.Proviso, cfg.Dir = binary(t), tempDir(t)
	set, err := stock.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{Pair: set, server: &server{dir: set.Dir, port: set.Port, kubeconfig: set.Kubeconfig}}
	if set.Etcd != nil {
		spawn(t, set.Etcd[0], set.Etcd[1:]...)
	}
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

// run starts the sidecar, in turn with exactly the command of the unit and of the static pod that init wrote (SC-4).
func (p *pair) run(t *testing.T) {
	t.Helper()
	command := p.unitCommand(t)
	if p.started++; p.started%2 == 0 {
		command = p.podCommand(t)
	}
	if !slices.Equal(command, p.Car) {
		t.Errorf("the sidecar would be started with %q, want %q", command, p.Car)
	}
	p.car = spawn(t, command[0], command[1:]...)
}

// unitCommand is what systemd would start.
func (p *pair) unitCommand(t *testing.T) []string {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(p.Side, "proviso-sidecar.service"))) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			return strings.Fields(command)
		}
	}
	t.Fatal("the unit starts nothing")
	return nil
}

// podCommand is what the kubelet would start, with the program of the image.
func (p *pair) podCommand(t *testing.T) []string {
	t.Helper()
	var pod corev1.Pod
	strictly(t, read(t, filepath.Join(p.Side, "proviso-sidecar.pod.yaml")), &pod)
	c := pod.Spec.Containers[0]
	if c.Command[0] != "proviso" || len(c.Args) > 0 {
		t.Fatalf("the static pod starts %q %q", c.Command, c.Args)
	}
	p.liveness = c.LivenessProbe.HTTPGet
	return append([]string{binary(t)}, c.Command[1:]...)
}

// lives: the kubelet asks as nobody, and without a certificate.
func (p *pair) lives(t *testing.T) {
	t.Helper()
	p.podCommand(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Get(fmt.Sprintf("https://%s:%s%s", p.liveness.Host, p.liveness.Port.String(), p.liveness.Path))
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.t.Errorf("the liveness probe of the static pod gets %s", resp.Status)
	}
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
	if !strings.Contains(said, "Conditions are honoured.") || !strings.Contains(said, "no narrowed tokens") { // TK-10
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

// does runs kubectl for somebody. What is not allowed is forbidden; what is may take a moment, as a proof does.
func (p *pair) does(user string, want bool, args ...string) {
	p.t.Helper()
	out := ""
	run := func() error {
		var err error
		out, err = p.try("", append([]string{"-n", "team", "--as", user}, args...)...)
		return err
	}
	if want {
		p.await(user+" to "+strings.Join(args, " "), func() bool { return run() == nil })
	} else if run() == nil || !strings.Contains(out, "orbidden") {
		p.t.Errorf("%s, %s: %s", user, strings.Join(args, " "), out)
	}
}
