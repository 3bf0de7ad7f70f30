package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

const roleAndBinding = `
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: editor, namespace: hammer}
rules:
- {verbs: [get, list], resourceKinds: [ConfigMap]}
- {deny: true, verbs: [delete], resourceKinds: [ConfigMap], attributeRestrictions: {labelsContain: [protected]}, description: stays}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: editors, namespace: hammer}
roleRef: {namespace: hammer, name: editor}
userNames: [edgar]
`

// PO-2, PO-4, PO-5, SV-8: roles and bindings are as kubectl users expect objects to be: applied twice, watched, waited
// for, deleted by file; and people hear about what has no effect or does not compile.
func TestRolesAreHandledLikeAnyObject(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")
	s.kubectl("create", "namespace", "hammer")
	if out, code := s.proviso(s.kubeconfig, "policy", "open", "hammer"); code != 0 {
		t.Fatal(out)
	}
	file := filepath.Join(tempDir(t), "role.yaml")
	write(t, file, roleAndBinding)
	s.kubectl("apply", "-f", file)
	if out := s.kubectl("apply", "-f", file); strings.Count(out, "unchanged") != 2 {
		t.Errorf("applied again:\n%s", out)
	}

	// kubectl get -w and kubectl wait
	watch := spawn(t, binary(t), "kubectl", "--kubeconfig", s.kubeconfig, "get", "roles.authorization.proviso.dev", "-n", "hammer", "-o", "name", "--watch")
	watch.await("what is there", func() bool {
		return strings.Contains(watch.output.String(), "role.authorization.proviso.dev/editor")
	})
	s.apply("{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: other, namespace: hammer}, rules: [{verbs: [get], resourceKinds: [pods]}]}")
	watch.await("an event", func() bool {
		return strings.Contains(watch.output.String(), "role.authorization.proviso.dev/other")
	})
	wait := spawn(t, binary(t), "kubectl", "--kubeconfig", s.kubeconfig, "wait", "--for=jsonpath={.metadata.labels.ready}=yes", "role.authorization.proviso.dev/other", "-n", "hammer", "--timeout=60s")
	s.kubectl("label", "role.authorization.proviso.dev", "other", "-n", "hammer", "ready=yes")
	if code := wait.wait(); code != 0 {
		t.Errorf("kubectl wait: %s", wait.output)
	}

	// Rules without effect
	out := s.apply("{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: odd, namespace: hammer}, rules: [{verbs: [gett], resourceKinds: [podss]}, {verbs: [create], resourceKinds: [pods], resourceNames: [x]}]}")
	for _, want := range []string{`"gett" is not a verb`, `is named "podss"`, "has no effect on create"} {
		if !strings.Contains(out, want) {
			t.Errorf("no warning with %q:\n%s", want, out)
		}
	}

	// Deleted by file, at the first try, in the order of the file. A role that stays bound says by what.
	if out := s.kubectl("delete", "-f", file, "--timeout=60s"); !strings.Contains(out, "hammer/editors") || strings.Count(out, "deleted from") != 2 {
		t.Errorf("deleted by file:\n%s", out)
	}
	if out, err := s.try("", "get", "roles.authorization.proviso.dev", "editor", "-n", "hammer"); err == nil {
		t.Errorf("the role is still there:\n%s", out)
	}

	// Roles with the original design's spellings, and audit classes, are unchanged too.
	for _, example := range []string{"../../examples/hubert-and-edgar/2-hubert.yaml", "../../examples/dynamic-audit/sinks.yaml"} {
		first := s.kubectl("apply", "-f", example)
		if again := s.kubectl("apply", "-f", example); strings.Count(again, "unchanged") != strings.Count(first, "created") {
			t.Errorf("%s, applied again:\n%s", example, again)
		}
		s.kubectl("delete", "-f", example, "--timeout=60s")
	}

	// So are bindings and classes that leave out what is filled in.
	const spelled = `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: viewers, namespace: hammer}, roleName: view, referencesGlobalRole: true, userNames: [vera]}
---
{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: no-group}, spec: {rules: [{groupResourceSelectors: [{resources: [{kind: secrets}]}]}]}}
`
	s.apply(spelled)
	if again := s.apply(spelled); strings.Count(again, "unchanged") != 2 {
		t.Errorf("a binding and a class, applied again:\n%s", again)
	}
	if out := s.kubectl("get", "rolebindings.authorization.proviso.dev", "viewers", "-n", "hammer", "-o", "jsonpath={.roleRef.name} {.roleRef.namespace} {.roleName} {.referencesGlobalRole}"); !strings.HasPrefix(out, "view ") || !strings.HasSuffix(out, " view true") {
		t.Errorf("the binding: %s", out)
	}
	if out, err := s.try("", "patch", "rolebindings.authorization.proviso.dev", "viewers", "-n", "hammer", "--type", "merge", "-p", `{"roleName": "edit"}`); err == nil || !strings.Contains(out, "is not roleRef.name") {
		t.Errorf("another role: %v\n%s", err, out)
	}
	if out, err := s.try(spelled, "delete", "-f", "-"); err != nil {
		t.Errorf("deleted by file: %v\n%s", err, out)
	}

	// What a server that died has left half done is finished.
	s.kubectl("apply", "-f", file)
	s.kubectl("delete", "role.authorization.proviso.dev", "editor", "-n", "hammer", "--wait=false")
	s.store(t).change("policy.proviso.dev/policybindings/hammer/hammer", func(b m) { delete(b["roleBindings"].(m), "editors") })
	s.await("the role to go", func() bool {
		_, err := s.try("", "get", "roles.authorization.proviso.dev", "editor", "-n", "hammer")
		return err != nil
	})

	// A rule that does not compile is an event, which does not quote it.
	s.store(t).change("policy.proviso.dev/policies/hammer/default", func(p m) {
		rule := p["roles"].(m)["other"].(m)["rules"].([]any)[0].(m)
		rule["verbs"], rule["where"] = []any{"create"}, "resource.secretword =="
	})
	s.await("the event", func() bool {
		out = s.kubectl("get", "events", "-n", "hammer")
		return strings.Contains(out, "RuleQuarantined") && strings.Contains(out, `Rule 0 of role "other" does not compile`)
	})
	if strings.Contains(out, "secretword") {
		t.Errorf("the event quotes the rule:\n%s", out)
	}
}
