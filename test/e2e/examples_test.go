package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// user is somebody with a certificate of his own.
type person struct {
	s          *server
	kubeconfig string
}

func (s *server) person(name string, groups ...string) person {
	s.t.Helper()
	path, err := s.issue(name, groups...)
	if err != nil {
		s.t.Fatal(err)
	}
	return person{s, path}
}

// may runs kubectl and fails the test if it is refused.
func (p person) may(args ...string) string {
	p.s.t.Helper()
	return p.s.kubectl(append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
}

// mayNot wants a refusal that says why.
func (p person) mayNot(why string, args ...string) {
	p.s.t.Helper()
	out, err := p.s.try("", append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	if err == nil || !strings.Contains(out, "orbidden") || !strings.Contains(out, why) {
		p.s.t.Errorf("kubectl %s: want a refusal with %q, got %v\n%s", strings.Join(args, " "), why, err, out)
	}
}

// PO-13: the Hubert and Edgar story, from the files that a user copies.
func TestHubertAndEdgar(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d", "--vmodule=refusal=2")
	hubert, edgar, bot := s.person("hubert"), s.person("edgar"), s.person("protector-bot")
	s.kubectl("create", "namespace", "hammer")

	// Before Clark has opened the namespace nobody has local roles, and the message says who can change that (PO-10).
	hubert.mayNot("", "apply", "-f", "../../examples/hubert-and-edgar/2-hubert.yaml")
	s.await("the default roles", func() bool {
		_, err := s.try("", "apply", "-f", "../../examples/hubert-and-edgar/1-clark.yaml")
		return err == nil
	})
	s.await("Hubert to be admin", func() bool {
		_, err := s.try("", "--kubeconfig", hubert.kubeconfig, "apply", "-f", "../../examples/hubert-and-edgar/2-hubert.yaml")
		return err == nil
	})
	// He gives away only what he has, and does not touch the containers.
	hubert.mayNot("", "create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--user=hubert")
	hubert.mayNot("", "delete", "policies.policy.proviso.dev", "default", "-n", "hammer")
	out, err := s.try(`{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: more, namespace: hammer}, roleRef: {namespace: master, name: cluster-admin}, userNames: [hubert]}`,
		"--kubeconfig", hubert.kubeconfig, "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "do not hold") {
		t.Errorf("Hubert bound himself to cluster-admin: %v\n%s", err, out) // PO-12
	}

	s.await("Edgar to edit", func() bool {
		_, err := s.try("", "--kubeconfig", edgar.kubeconfig, "create", "deployment", "web", "--image=x", "-n", "hammer")
		return err == nil
	})
	edgar.may("create", "deployment", "api", "--image=x", "-n", "hammer")
	bot.may("label", "deployment", "web", "protected=yes", "-n", "hammer")
	bot.mayNot("only the labels", "set", "image", "deployment/web", "x=y", "-n", "hammer")
	edgar.mayNot("protected deployments stay", "delete", "deployment", "web", "-n", "hammer")
	edgar.mayNot("protected deployments stay protected", "label", "deployment", "web", "protected-", "-n", "hammer")
	edgar.may("label", "deployment", "web", "tier=low", "-n", "hammer")
	edgar.may("delete", "deployment", "api", "-n", "hammer")
	edgar.mayNot("", "get", "roles.authorization.proviso.dev", "-n", "hammer")

	// The master namespace stays (PO-6).
	if out, err := s.try("", "delete", "namespace", "master"); err == nil || !strings.Contains(out, "cannot be deleted") {
		t.Errorf("the master namespace was deleted: %v\n%s", err, out)
	}
	// OP-7: the log has one line for each of these refusals.
	for _, want := range []string{`"Request refused" stage="authorization" user="hubert" verb="delete" group="policy.proviso.dev" resource="policies" namespace="hammer" name="default"`,
		`"Request refused" stage="conditions" user="edgar" verb="delete" group="apps" resource="deployments" namespace="hammer" name="web"`} {
		s.await("a line with "+want, func() bool {
			log, err := os.ReadFile(filepath.Join(s.dir, "log", "proviso.log"))
			return err == nil && strings.Contains(string(log), want)
		})
	}
	// OP-5: every metric of ours is in the reference.
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	served := regexp.MustCompile(`(?m)^# TYPE (proviso_\S+) (\S+)$`).FindAllStringSubmatch(s.kubectl("get", "--raw", "/metrics"), -1)
	for _, m := range served {
		if !strings.Contains(string(reference), fmt.Sprintf("| `%s` | %s |", m[1], m[2])) {
			t.Errorf("the reference does not have the %s %s", m[2], m[1])
		}
	}
	if len(served) < 5 {
		t.Errorf("%d metrics are served", len(served))
	}
}
