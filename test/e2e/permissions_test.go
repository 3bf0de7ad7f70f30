package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// proviso runs the binary under test as a user and returns what it prints and its exit code.
func (s *server) proviso(kubeconfig string, args ...string) (string, int) {
	s.t.Helper()
	out, err := exec.Command(binary(s.t), append(args, "--kubeconfig", kubeconfig)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("%v: %v", args, err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// FP-12: field permissions are found with kubectl and with our own commands, and access reviews work on their verbs.
func TestPermissionsCanBeFound(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")
	s.kubectl("apply", "-f", "../../examples/exclusive-field/fieldpermissions.yaml", "-f", "../../examples/exclusive-field/roles.yaml", "-f", "../../examples/supersafe/rbac.yaml")
	s.await("the declarations", func() bool {
		return strings.Contains(s.kubectl("get", "permissions"), "granular:example.com/podSecurityLevel")
	})
	s.kubectl("wait", "--for=condition=KindsResolved", "--timeout=60s", "fieldpermission/node-network")

	for _, tc := range []struct {
		args []string
		with []string
	}{
		{[]string{"get", "perm", "-o", "wide"}, []string{"NAME", "VERBS", "SOURCE", `FieldPermission "node-network"`, "granular:label(<prefix>)"}},
		{[]string{"get", "perm", "example.com:nodeNetwork", "-o", "yaml"}, []string{"permission: example.com/nodeNetwork", "exclusiveWhen: self == true", "field: .spec.template.spec.hostNetwork"}},
		{[]string{"get", "permissions", "--field-selector", "resource=deployments.apps"}, []string{".spec.template.spec.hostNetwork", ".spec.replicas"}},
		{[]string{"explain", "permissions.fields.exclusive"}, []string{"the field: only the permission does"}},
		{[]string{"explain", "pod.spec.hostNetwork"}, []string{"granular:example.com/nodeNetwork", "exclusive for some values"}}, // FP-3
		{[]string{"explain", "deployment.spec.template.spec.hostNetwork"}, []string{"granular:example.com/nodeNetwork", "deployments.apps"}},
		{[]string{"explain", "deployment.spec.replicas"}, []string{"granular:replicas"}},
		{[]string{"explain", "cm.metadata.labels"}, []string{"granular:labels", "granular:label(<prefix>)"}},
		{[]string{"get", "fieldpermission", "node-network", "-o", "jsonpath={.status.coveredResources}"}, []string{`"deployments.apps"`, `"pods"`}},
		{[]string{"auth", "can-i", "granular:label(super.safe.com)", "deployments", "--as", "supersafe"}, []string{"yes"}},
	} {
		out := s.kubectl(tc.args...)
		for _, want := range tc.with {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s: no %q in\n%s", strings.Join(tc.args, " "), want, out)
			}
		}
	}
	if out, err := s.try("", "auth", "can-i", "granular:labels", "deployments", "--as", "supersafe"); err == nil || !strings.HasSuffix(strings.TrimSpace(out), "no") {
		t.Errorf("auth can-i of what supersafe does not hold: %v\n%s", err, out)
	}
	if out, err := s.try("", "get", "permissions", "--field-selector", "resource=nosuch"); err == nil || !strings.Contains(out, "no served resource has this name or kind") {
		t.Errorf("an unknown resource: %v\n%s", err, out)
	}

	explainDeclared(s)

	supersafe, err := s.issue("supersafe")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		as, args string
		code     int
		with     string
	}{
		{s.kubeconfig, "permissions", 0, "granular:nodeAssignment"},
		{s.kubeconfig, "permissions Deployment -o wide", 0, `FieldPermission "node-network"`},
		{s.kubeconfig, "permissions nosuch", 3, `the server does not serve "nosuch"`},
		{supersafe, "permissions", 3, `User "supersafe" cannot list resource "permissions"`},
		{s.kubeconfig, "who-can granular:label(super.safe.com) deployments", 0, "supersafe"},
		{s.kubeconfig, "who-can granular:label(safe.com) deploy --system", 0, "system:masters"},
		{supersafe, "can-i granular:label(super.safe.com) deploy", 0, "yes"},
		{supersafe, "can-i granular:label(safe.com) deploy", 1, "no"},
		{supersafe, "can-i update deploy", 2, "`proviso permissions deployments.apps` lists the permissions"},
		{supersafe, "can-i delete deploy", 1, "no"},
		{s.kubeconfig, "can-i create pods -n play --as dora", 2, "field .spec.hostNetwork of pods may only be changed with granular:example.com/nodeNetwork"}, // PA-8
		{s.kubeconfig, "can-i create pods -n play --as nadia", 0, "yes"},
	} {
		if out, code := s.proviso(tc.as, strings.Fields(tc.args)...); code != tc.code || !strings.Contains(out, tc.with) {
			t.Errorf("proviso %s: exit code %d, want %d with %q\n%s", tc.args, code, tc.code, tc.with, out)
		}
	}
}

// definition is a definition of example.com with one version and these properties of spec, as one line of YAML.
func definition(kind, properties string) string {
	name := strings.ToLower(kind)
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.example.com}
spec:
  group: example.com
  names: {plural: %[2]ss, singular: %[2]s, kind: %[1]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: %[3]s}}}
`, kind, name, properties)
}

// explainDeclared: kubectl explain shows the verb that the author of a CRD has declared, a new one too, and kubectl
// validates by the same document (FP-3).
func explainDeclared(s *server) {
	s.t.Helper()
	for _, verb := range []string{"fuseLength", "fuse"} {
		s.apply(definition("Bomb", "{fuse: {type: integer, description: In seconds., x-kubernetes-permission-verb: example.com/"+verb+", x-kubernetes-permission-exclusive: true}}"))
		s.await("kubectl explain shows "+verb, func() bool {
			out, err := s.try("", "explain", "bombs.spec.fuse")
			return err == nil && strings.Contains(out, "granular:example.com/"+verb+" ") && strings.Contains(out, "In seconds.")
		})
	}
	s.apply("{apiVersion: example.com/v1, kind: Bomb, metadata: {name: b, namespace: default}, spec: {fuse: 3}}", "--validate=strict")
	wrong := "{apiVersion: example.com/v1, kind: Bomb, metadata: {name: c, namespace: default}, spec: {fuze: 3}}"
	if out, err := s.try(wrong, "create", "-f", "-", "--validate=strict"); err == nil || !strings.Contains(out, "fuze") {
		s.t.Errorf("a field that there is not: %v\n%s", err, out)
	}
}

// readsWithout: RD-8. Without ConditionalReads a conditional read is refused, but for lists whose selectors imply the
// condition (CA-16).
func readsWithout(s *server) {
	s.t.Helper()
	s.kubectl("apply", "-f", "../../examples/team-views/policy.yaml")
	team := func(args ...string) (string, error) {
		return s.try("", append([]string{"--as", "ann", "--as-group", "team-a", "-n", "default"}, args...)...)
	}
	s.await("the right to list by a selector", func() bool {
		_, err := team("get", "configmaps", "-l", "team=a")
		return err == nil
	})
	for _, args := range [][]string{{"get", "configmaps"}, {"get", "configmaps", "-w"}, {"get", "configmap", "kube-root-ca.crt"}, {"get", "configmap", "nosuch"}} {
		if out, err := team(args...); err == nil || !strings.Contains(out, "a conditional permission cannot be used") {
			s.t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// FP-14: each of the two features that share an API group can be on without the other.
func TestPermissionsByFeature(t *testing.T) {
	t.Parallel()
	for gates, want := range map[string]struct{ permissions, reviews bool }{
		"FieldPermissions=false,ConditionalReads=false": {false, true},
		"PolicyAuthorization=false":                     {true, false},
	} {
		s := serve(t, tempDir(t)+"/d", "--feature-gates", gates)
		out := s.kubectl("api-resources", "--api-group", "authorization.proviso.dev", "-o", "name")
		if strings.Contains(out, "permissions.") != want.permissions || strings.Contains(out, "resourceaccessreviews.") != want.reviews {
			t.Errorf("%s: served are\n%s", gates, out)
		}
		out, code := s.proviso(s.kubeconfig, "permissions")
		if (code == 0) != want.permissions || !want.permissions && !strings.Contains(out, "feature gate FieldPermissions is off") {
			t.Errorf("%s: exit code %d\n%s", gates, code, out)
		}
		if want.reviews {
			readsWithout(s)
		}
		s.stop()
	}
}
