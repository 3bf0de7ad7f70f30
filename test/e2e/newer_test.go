package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// store is the embedded etcd of a server, written to behind the server's back, as a replica of a newer version does.
type store struct {
	t      *testing.T
	client *clientv3.Client
}

func (s *server) store(t *testing.T) *store {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(s.dir, "etcd", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the socket of etcd: %v %v", sockets, err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + sockets[0]}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &store{t, client}
}

func (s *store) get(key string) string {
	s.t.Helper()
	got, err := s.client.Get(context.Background(), "/registry/"+key)
	if err != nil || len(got.Kvs) != 1 {
		s.t.Fatalf("etcd %s: %v %v", key, got, err)
	}
	return string(got.Kvs[0].Value)
}

// change rewrites a stored object and returns what it is now.
func (s *store) change(key string, change func(m)) string {
	s.t.Helper()
	var obj m
	if err := json.Unmarshal([]byte(s.get(key)), &obj); err != nil {
		s.t.Fatal(err)
	}
	change(obj)
	data, err := json.Marshal(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.Put(context.Background(), "/registry/"+key, string(data)); err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// ns is a namespace with a role "edgar" of these rules, bound to edgar.
func localPolicy(ns, rules string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: %[1]s}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: %[1]s, namespace: %[1]s}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: edgar, namespace: %[1]s}
rules: %[2]s
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: edgar, namespace: %[1]s}
roleRef: {namespace: %[1]s, name: edgar}
userNames: [edgar]
`, ns, rules)
}

// SV-8: what a newer version has stored, or what does not compile, is quarantined alone: its allow rules grant nothing,
// its deny rules deny without their condition, everything else takes effect, revocations first of all; status, metrics
// and log tell, nothing of it is overwritten, and a restart changes none of it.
func TestObjectsOfANewerVersion(t *testing.T) {
	t.Parallel()
	dir := tempDir(t) + "/d"
	s := serve(t, dir)
	edgar := s.person("edgar")
	const everyday = `[{verbs: [get, list], resourceKinds: [configmaps]}, {verbs: [list], resourceKinds: [secrets]}, {deny: true, verbs: [delete], resourceKinds: [services], where: "resource.metadata.name == 'x'"}]`
	for _, ns := range []string{"good", "bent", "future", "bound"} {
		s.apply(localPolicy(ns, everyday))
		// RBAC lets him delete services, which the deny rule narrows.
		s.kubectl("create", "role", "services", "--verb=delete", "--resource=services", "-n", ns)
		s.kubectl("create", "rolebinding", "services", "--role=services", "--user=edgar", "-n", ns)
	}
	s.apply("{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: tier}, attributeKind: Label, attributeName: tier, protectedValues: [gold], roleRef: {kind: ClusterRole, name: cluster-admin}}")
	s.apply("{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: sealed}, spec: {resources: [configmaps], field: '.data[sealed]', permission: example.com/sealed, exclusive: true, exclusiveWhen: \"self == 'top'\"}}")
	s.kubectl("create", "rolebinding", "edgar", "--clusterrole=edit", "--user=edgar", "-n", "default")
	may := func(want bool, ns, verb, resource string) {
		t.Helper()
		var out string
		s.await(fmt.Sprintf("edgar may %s %s in %s: %v", verb, resource, ns, want), func() bool {
			var err error
			out, err = s.try("", "--kubeconfig", edgar.kubeconfig, verb, resource, "-n", ns)
			return (err == nil) == want && (want || strings.Contains(out, "orbidden"))
		})
	}
	// deletes makes a service and lets edgar try to delete it.
	deletes := func(want bool, ns, name string) {
		t.Helper()
		if _, err := s.try("", "get", "service", name, "-n", ns); err != nil {
			s.kubectl("create", "service", "externalname", name, "--external-name", "example.com", "-n", ns)
		}
		out, err := s.try("", "--kubeconfig", edgar.kubeconfig, "delete", "service", name, "-n", ns)
		if (err == nil) != want || (!want && !strings.Contains(out, "orbidden")) {
			t.Errorf("edgar deletes %s in %s: want %v\n%s", name, ns, want, out)
		}
	}
	for _, ns := range []string{"good", "bent", "future", "bound"} {
		deletes(false, ns, "x")
		deletes(true, ns, "y")
		may(true, ns, "get", "configmaps")
		may(true, ns, "get", "secrets")
	}

	s.await("the field to be withheld for one value", func() bool { return s.seals(edgar, "top") != nil })
	if err := s.seals(edgar, "low"); err != nil {
		t.Fatal(err)
	}

	etcd := s.store(t)
	const policies, bindings = "policy.proviso.dev/policies/", "policy.proviso.dev/policybindings/"
	// A rule of its own that does not compile here, beside others that do; a deny rule likewise; one with a field of
	// the future.
	etcd.change(policies+"bent/default", func(p m) {
		role := p["roles"].(m)["edgar"].(m)
		role["rules"] = append(role["rules"].([]any),
			m{"verbs": []string{"list"}, "resourceKinds": []string{"pods"}, "when": "object.spec.quantum(3) =="},
			m{"deny": true, "verbs": []string{"list"}, "resourceKinds": []string{"secrets"}, "when": "request.moonPhase() == 'full'"},
			m{"verbs": []string{"list"}, "resourceKinds": []string{"endpoints"}, "onlyOnSundays": true})
	})
	future := etcd.change(policies+"future/default", func(p m) {
		p["apiVersion"] = "policy.proviso.dev/v1beta1"
		p["shape"] = []any{"unheard", "of"}
	})
	bound := etcd.change(bindings+"bound/bound", func(b m) {
		b["roleBindings"].(m)["edgar"].(m)["expires"] = "2020-01-01T00:00:00Z"
	})
	protection := etcd.change("policy.proviso.dev/clusterprotectedattributes/tier", func(p m) {
		p["apiVersion"] = "policy.proviso.dev/v2"
		p["protectedValues"] = m{"regex": "g.*"}
	})

	sealed := etcd.change("policy.proviso.dev/fieldpermissions/sealed", func(p m) {
		p["apiVersion"] = "policy.proviso.dev/v2"
		p["spec"].(m)["unless"] = m{"moon": "full"}
	})

	check := func(t *testing.T) {
		// FP-5: the field is withheld whatever its value is
		s.await("the field to be withheld", func() bool { return s.seals(edgar, "low") != nil })
		// the rest of the same policy, and each bad rule in its safe direction
		may(true, "bent", "get", "configmaps")
		may(false, "bent", "get", "secrets") // denied without the condition
		may(false, "bent", "get", "pods")
		may(false, "bent", "get", "endpoints")
		may(false, "future", "get", "configmaps")
		may(false, "bound", "get", "configmaps")
		// The deny rule of the policy that is not understood denies without its condition; that of the binding that is
		// not understood belongs to a role that is, and keeps it.
		for ns, free := range map[string]bool{"future": false, "bound": true, "bent": true} {
			deletes(false, ns, "x")
			deletes(free, ns, "y")
		}
		// PA-2: every value is protected as long as nobody knows which
		out, err := s.try("", "--kubeconfig", edgar.kubeconfig, "create", "-n", "default", "--dry-run=server", "-f", labelled(t, "copper"))
		if err == nil || !strings.Contains(out, "tier") {
			t.Errorf("a protection that is not understood protects nothing: %v\n%s", err, out)
		}
		s.await("the status of the bent policy", func() bool {
			out := s.kubectl("get", "policy.policy.proviso.dev", "default", "-n", "bent", "-o", "jsonpath={.status.conditions[?(@.type=='RulesCompiled')]}")
			return strings.Contains(out, `"False"`) && strings.Contains(out, "moonPhase")
		})
		for _, object := range []string{"policy.policy.proviso.dev/default -n future", "policybinding/bound -n bound", "clusterprotectedattribute/tier", "fieldpermission/sealed"} {
			out := s.kubectl(append([]string{"get", "-o", "jsonpath={.metadata.annotations}{.status.conditions}"}, strings.Fields(object)...)...)
			if !strings.Contains(out, "policy.proviso.dev/quarantined") || !strings.Contains(out, `"reason":"Quarantined"`) {
				t.Errorf("%s does not say that it is quarantined: %s", object, out)
			}
		}
		s.await("the metrics", func() bool {
			out := s.kubectl("get", "--raw", "/metrics")
			for _, want := range []string{`quarantined_objects{resource="policies"} 1`, `quarantined_objects{resource="policybindings"} 1`, `quarantined_objects{resource="clusterprotectedattributes"} 1`, `quarantined_objects{resource="fieldpermissions"} 1`} {
				if !strings.Contains(out, "proviso_policy_"+want) {
					return false
				}
			}
			return strings.Contains(out, `proviso_policy_quarantined_rules{effect="deny"}`) && !strings.Contains(out, `proviso_policy_quarantined_rules{effect="deny"} 0`)
		})
		if out := s.kubectl("get", "--raw", "/readyz"); !strings.HasSuffix(out, "ok") {
			t.Errorf("one bad object makes the server unready: %s", out)
		}
		log, err := os.ReadFile(filepath.Join(dir, "log", "proviso.log"))
		if err != nil || !strings.Contains(string(log), "Quarantined an object") || !strings.Contains(string(log), "Quarantined a rule") || !strings.Contains(string(log), "v1beta1") {
			t.Errorf("the log does not tell: %v", err)
		}
		for key, want := range map[string]string{policies + "future/default": future, bindings + "bound/bound": bound, "policy.proviso.dev/clusterprotectedattributes/tier": protection, "policy.proviso.dev/fieldpermissions/sealed": sealed} {
			if got := etcd.get(key); got != want {
				t.Errorf("%s was overwritten:\n%s", key, got)
			}
		}
	}
	t.Run("as it arrives", check)
	// OP-4: another release finds all of it before it serves.
	text, err := exec.Command(binary(t), "backup", "check", "--data-dir", dir).CombinedOutput()
	for _, want := range []string{"unknown onlyOnSundays", "policies.policy.proviso.dev future/default: ", "policybindings.policy.proviso.dev bound/bound: ",
		"clusterprotectedattributes.policy.proviso.dev tier: ", "fieldpermissions.policy.proviso.dev sealed: ", "this release cannot read"} {
		if err == nil || !strings.Contains(string(text), want) {
			t.Errorf("snapshot check does not say %q: %v\n%s", want, err, text)
		}
	}
	// One bad object never freezes a revocation, nor a grant.
	s.kubectl("delete", "rolebinding.authorization.proviso.dev", "edgar", "-n", "good")
	may(false, "good", "get", "configmaps")
	s.apply(localPolicy("newcomer", everyday))
	may(true, "newcomer", "get", "configmaps")

	s.kill()
	s = serve(t, dir)
	edgar = s.person("edgar")
	etcd = s.store(t)
	t.Run("after a restart", check)
	may(false, "good", "get", "configmaps")
	may(true, "newcomer", "get", "configmaps")

	// It cannot be written through this version, which would lose what it does not know, but deleted.
	out, err := s.try("{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: more, namespace: future}, rules: []}", "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "upgrade the server, or delete the object") {
		t.Errorf("writing into a policy of the future: %v\n%s", err, out)
	}
	s.kubectl("delete", "policy.policy.proviso.dev", "default", "-n", "future")
	s.await("the metrics to follow", func() bool {
		return strings.Contains(s.kubectl("get", "--raw", "/metrics"), `proviso_policy_quarantined_objects{resource="policies"} 0`)
	})
	etcd.change(bindings+"bound/bound", func(b m) { delete(b["roleBindings"].(m)["edgar"].(m), "expires") })
	may(true, "bound", "get", "configmaps")
}

// seals is edgar's try to create a config map with a field that may be withheld.
func (s *server) seals(p person, value string) error {
	s.t.Helper()
	out, err := s.try("", "--kubeconfig", p.kubeconfig, "create", "configmap", "sealed", "--from-literal=sealed="+value, "-n", "default", "--dry-run=server")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// labelled is a file with a config map of that tier.
func labelled(t *testing.T, tier string) string {
	t.Helper()
	path := filepath.Join(tempDir(t), "labelled.json")
	write(t, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"labelled","labels":{"tier":%q}}}`, tier))
	return path
}
