package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/state/journal"
)

// run runs a command against the server, and returns what it prints.
func (s *instance) run(t *testing.T, command func(genericiooptions.IOStreams) *cobra.Command, args ...string) (out, errOut string, err error) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	cmd := command(streams)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig", filepath.Join(s.dir, "admin.kubeconfig")))
	cmd.SetOut(&bytes.Buffer{})
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// historyAndRollback: what was revoked is seen in the history, with the difference that it made, and comes back with a
// rollback, a role of RBAC and one of Policy (TR-15).
func historyAndRollback(t *testing.T, s *instance, here asker) {
	const views = "/apis/authorization.proviso.dev/v1alpha1/namespaces/default/"
	here.wrote("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"back"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"maker"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"vera"}]}`)
	here.wrote("POST", views+"roles", `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"reader"},"rules":[{"verbs":["get"],"resourceKinds":["secrets"]}]}`)
	here.wrote("POST", views+"rolebindings", `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"reader"},"userNames":["vera"],"roleRef":{"name":"reader"}}`)
	out, _, err := s.run(t, policytools.NewHistoryCommand, "-o", "json", "--limit", "1")
	var last journal.History
	if err != nil || json.Unmarshal([]byte(out), &last) != nil || len(last.Entries) != 1 || last.Entries[0].Revision == 0 {
		t.Fatalf("%v %s", err, out)
	}
	then := fmt.Sprint(last.Entries[0].Revision)
	here.wrote("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/back", "")
	here.wrote("DELETE", views+"rolebindings/reader", "")
	here.wrote("DELETE", views+"roles/reader", "")
	gone := here.wrote("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"later"},"rules":[]}`)

	out, _, err = s.run(t, policytools.NewHistoryCommand)
	t.Log("\n" + out)
	for _, want := range []string{"delete", "clusterrolebindings.rbac.authorization.k8s.io back", "policybindings.policy.proviso.dev default/default", "-reader", "+reader"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in the history: %v\n%s", want, err, out)
		}
	}
	out, _, err = s.run(t, policytools.NewHistoryCommand, "--diff", then+"..now")
	if err == nil || !strings.Contains(out, "vera") || !strings.Contains(out, "Yes → No") {
		t.Errorf("the difference: %v\n%s", err, out)
	}
	out, errOut, err := s.run(t, policytools.NewRollbackCommand, then)
	if err == nil || !strings.Contains(out, "No → Yes") || !strings.Contains(errOut, "create Role.authorization.proviso.dev default/reader") || !strings.Contains(errOut, "delete ClusterRole.rbac.authorization.k8s.io later") {
		t.Errorf("the plan: %v\n%s%s", err, out, errOut)
	}
	if yes := here.verasSecrets(gone); yes {
		t.Error("a plan has changed something")
	}
	t.Log("\n" + out + errOut)
	if out, errOut, err = s.run(t, policytools.NewRollbackCommand, then, "--yes"); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	_, errOut, err = s.run(t, policytools.NewRollbackCommand, then)
	if err != nil || !strings.Contains(errOut, "there is nothing to do") {
		t.Errorf("once more: %v\n%s", err, errOut)
	}
	s.await("what was rolled back", func() (bool, error) { return here.verasSecrets(""), nil })
	if _, _, err := s.run(t, policytools.NewRollbackCommand, "1"); err == nil || !strings.Contains(err.Error(), "the journal begins at revision") {
		t.Errorf("too far back: %v", err)
	}
}

// verasSecrets asks whether vera may read secrets.
func (a asker) verasSecrets(atLeast string) bool {
	a.t.Helper()
	_, _, answer := a.send("POST", reviewPath, `{"spec":{"user":"vera","atLeastRevision":"`+atLeast+`","resourceAttributes":{"verb":"get","version":"v1","resource":"secrets","namespace":"default"}}}`, "")
	status, _ := answer["status"].(map[string]any)
	yes, _ := status["allowed"].(bool)
	return yes
}
