package e2e

import (
	"strings"
	"testing"
)

// TR-21, TR-22: who-can says by which rule and binding, folds the system, and lists who could get there in another
// step, each with the right that it takes.
func TestWhoCanByDetours(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")
	s.kubectl("create", "namespace", "vault")
	s.kubectl("create", "serviceaccount", "reader", "-n", "vault")
	for name, rule := range map[string][]string{
		"reads": {"--verb=get", "--resource=secrets"}, "makes": {"--verb=create", "--resource=deployments.apps"}, "execs": {"--verb=create", "--resource=pods/exec"},
		"mints": {"--verb=create", "--resource=serviceaccounts/token"}, "poses": {"--verb=impersonate", "--resource=serviceaccounts"}, "looks": {"--verb=get", "--resource=pods"},
	} {
		s.kubectl(append([]string{"create", "role", name, "-n", "vault"}, rule...)...)
		subject := "--user=" + name
		if name == "reads" {
			subject = "--serviceaccount=vault:reader"
		}
		s.kubectl("create", "rolebinding", name, "-n", "vault", "--role", name, subject)
	}
	s.apply("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: binds}\nrules:\n" +
		"- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles], verbs: [bind]}\n" +
		"- {apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [create]}\n")
	s.kubectl("create", "rolebinding", "binds", "-n", "vault", "--clusterrole", "binds", "--user=binds")
	s.apply("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: joins}\nrules:\n" +
		"- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind], resourceNames: [reads]}\n" +
		"- {apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [update], resourceNames: [reads]}\n")
	s.kubectl("create", "rolebinding", "joins", "-n", "vault", "--clusterrole", "joins", "--user=joins")
	var out string
	s.await("the bindings", func() bool {
		out, _ = s.proviso(s.kubeconfig, "who-can", "get", "secrets", "-n", "vault", "-o", "wide", "--indirect", "--hide-system")
		return strings.Contains(out, "binds") && strings.Contains(out, "joins")
	})
	direct, detours, _ := strings.Cut(out, "One step away:")
	if !strings.Contains(direct, `rule 0 of RBAC Role "vault/reads" through RBAC RoleBinding "vault/reads"`) || !strings.Contains(direct, "BY") {
		t.Errorf("no rule and binding\n%s", out)
	}
	for _, want := range [][3]string{
		{"makes", "mount it in a pod", "create deployments.apps in vault"},
		{"execs", "run commands in a pod that has it", "create pods/exec in vault"},
		{"mints", "mint a token of system:serviceaccount:vault:reader", "create serviceaccounts/token/reader in vault"},
		{"poses", "impersonate system:serviceaccount:vault:reader", "impersonate serviceaccounts/reader in vault"},
		{"binds", "bind a role that allows it", "bind clusterroles.rbac.authorization.k8s.io in vault and create rolebindings.rbac.authorization.k8s.io in vault"},
		{"joins", "join a binding that allows it", "bind roles.rbac.authorization.k8s.io/reads in vault and update rolebindings.rbac.authorization.k8s.io/reads in vault"},
	} {
		found := false
		for line := range strings.Lines(detours) {
			found = found || strings.Contains(line, "User      "+want[0]) && strings.Contains(line, want[1]) && strings.Contains(line, want[2])
		}
		if !found {
			t.Errorf("%v is missing\n%s", want, detours)
		}
	}
	if strings.Contains(detours, "looks") {
		t.Errorf("who only looks at pods gets nowhere\n%s", detours)
	}
	out, _ = s.proviso(s.kubeconfig, "who-can", "get", "secrets", "-n", "vault")
	if strings.Contains(out, "system:masters") || !strings.Contains(out, "users and groups of the system; --system lists them") {
		t.Errorf("the system is not folded\n%s", out)
	}
	if out, _ = s.proviso(s.kubeconfig, "who-can", "get", "secrets", "-n", "vault", "--system"); !strings.Contains(out, "system:masters") {
		t.Errorf("the system is not listed\n%s", out)
	}
}
