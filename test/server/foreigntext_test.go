package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/cli/policytools"
)

// forged begins every line that a hostile name tries to write.
const forged = "FORGED"

// forgery is a name, group or description with all that a terminal could take for something else.
const forgery = "eve\n" + forged + "   root   yes\r\x1b[2J\x1b]0;title\x07\u202e\u2028" + forged + "\tx"

// NI-7: names, groups and descriptions that somebody has chosen begin no line and steer no terminal, whichever command
// prints them.
func TestForeignTextForgesNothing(t *testing.T) {
	t.Parallel()
	s := narrowed.get(t) // few others write policy there: some commands look at all of it
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hostile", Annotations: map[string]string{"x": forgery}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{forgery}}, {Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hostile"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: forgery}, {Kind: "Group", APIGroup: rbacv1.GroupName, Name: forgery}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policies := dynamic.NewForConfigOrDie(s.admin)
	grantReads(t, policies, "hostile", forgery,
		map[string]any{"verbs": []any{"list"}, "resourceKinds": []any{"secrets"}, "description": forgery, "where": `resource.metadata.labels.team == "a"`},
		map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"secrets"}, "deny": true, "enforcement": "Warn", "description": forgery})
	deny := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "Role", "metadata": map[string]any{"name": "hostile2", "namespace": "master"},
		"rules": []any{map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"pods"}, "description": forgery}}}}
	file := filepath.Join(t.TempDir(), "change.json")
	text, err := deny.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.await("the right of the forgery user", func() (bool, error) {
		out, _, _ := s.run(t, cli.NewWhoCanCommand, "list", "secrets")
		return strings.Contains(out, "eve"), nil
	})

	plan := []string{"-f", file}
	runs := []struct {
		name    string
		command func(genericiooptions.IOStreams) *cobra.Command
		args    []string
	}{
		{"who-can", cli.NewWhoCanCommand, []string{"list", "secrets"}},
		{"who-can by name", cli.NewWhoCanCommand, []string{"get", "secrets/" + forgery}},
		{"can-i", cli.NewCanICommand, []string{"list", "secrets", "--as", forgery}},
		{"can-i --list", cli.NewCanICommand, []string{"--list", "--as", forgery}},
		{"explain", cli.NewExplainCommand, []string{"list", "secrets", "--as", forgery}},
		{"explain a missing right", cli.NewExplainCommand, []string{"delete", "secrets/" + forgery, "--as", forgery}},
		{"permissions", cli.NewPermissionsCommand, nil},
		{"shadow", cli.NewShadowCommand, []string{"-n", "master"}},
		{"policy grant", cli.NewPolicyCommand, []string{"grant", "view", "--user", forgery, "-n", "master", "--dry-run=client"}},
		{"policy deny", cli.NewPolicyCommand, []string{"deny", "get", "secrets", "--user", forgery, "-n", "master", "--dry-run=client"}},
		{"history", policytools.NewHistoryCommand, nil},
		{"lint", policytools.NewLintCommand, nil},
		{"matrix", policytools.NewMatrixCommand, nil},
		{"matrix as csv", policytools.NewMatrixCommand, []string{"-o", "csv"}},
		{"matrix as html", policytools.NewMatrixCommand, []string{"-o", "html"}},
		{"dump", policytools.NewDumpCommand, nil},
		{"plan", policytools.NewPlanCommand, plan},
		{"plan as markdown", policytools.NewPlanCommand, append(slices.Clone(plan), "-o", "markdown")},
		{"rollback", policytools.NewRollbackCommand, []string{forgery}},
		{"suggest", policytools.NewSuggestCommand, []string{"--live", "1s", "--user", forgery}},
	}
	named := 0
	for _, run := range runs {
		out, errOut, err := s.run(t, run.command, run.args...)
		if err != nil {
			errOut += sentence(err)
		}
		if strings.Contains(out+errOut, forged) {
			named++
		}
		for _, line := range strings.Split(out+errOut, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), forged) || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) || r == '\u202e' || r == '\u2028' }) {
				t.Errorf("%s: a line that somebody else has written: %q", run.name, line)
			}
		}
	}
	if named < 8 {
		t.Errorf("the name was printed by %d commands only", named)
	}
}

// sentence is an error as the program prints it.
func sentence(err error) string {
	var b strings.Builder
	root := &cobra.Command{RunE: func(*cobra.Command, []string) error { return err }, SilenceErrors: true, SilenceUsage: true}
	root.SetArgs(nil)
	cli.Execute(root, &b)
	return fmt.Sprint(b.String())
}
