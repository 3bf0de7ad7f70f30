package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reviewsShowConditions begins the only step of the tour that prints something else beside a stock server: there an
// access review of authorization.k8s.io knows nothing of conditions. The guide has it as a row of what cannot be had.
const reviewsShowConditions = "k create -o yaml -f - <<'YAML' | sed -n '/^status:/,$p'\napiVersion: authorization.k8s.io/v1\n"

// webhookWords stand in front of what the admission webhook says.
const webhookWords = `admission webhook "admit.proviso.dev" denied the request: `

// SC-16: the tour runs beside a stock server, and prints the same but for what the guide says cannot be had.
func TestTourBesideAStockServer(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--read-objects")
	p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
	p.honoured()
	// No controller fills aggregated roles here.
	p.kubectl("patch", "clusterrole", "admin", "--type=merge", "-p", `{"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}]}`)
	root := checkout(t)
	p.kubeconfigAs(filepath.Join(root, "proviso-data", "admin.kubeconfig"), "")
	for attempt := 1; ; attempt++ {
		p.kubeconfigAs(filepath.Join(root, "edgar.kubeconfig"), "edgar") // no authority of ours issues certificates
		tour := tourBeside(t, fmt.Sprintf("hammer-%d", attempt))
		got := tour.run(t, root, func() {})
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], webhookWords, "")
		}
		wrong := tour.compare(t, got)
		if wrong == "" {
			return
		}
		if attempt == attempts {
			t.Fatal(wrong)
		}
		t.Logf("attempt %d: %s", attempt, wrong)
	}
}

// tourBeside is the tour in a namespace of its own: no controller ends one here.
func tourBeside(t *testing.T, namespace string) *page {
	t.Helper()
	tour := readPage(t, "docs/tutorial/tour.md")
	here := strings.NewReplacer("bin/proviso kubeconfig --user edgar > edgar.kubeconfig\n", "", "k delete namespace hammer\n", "", "namespace \"hammer\" deleted\n", "", "hammer", namespace)
	for i := range tour.steps {
		s := &tour.steps[i]
		if strings.HasPrefix(s.script, reviewsShowConditions) {
			s.want = "error: …unknown field \"authorizationOptions\"…\n"
		}
		s.script, s.want = here.Replace(s.script), here.Replace(s.want)
	}
	return tour
}

// kubeconfigAs writes the administrator's kubeconfig, to act as a user.
func (p *pair) kubeconfigAs(path, user string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	data, err := os.ReadFile(p.Kubeconfig)
	if err != nil {
		p.t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if user != "" {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "client-certificate") })
		lines = slices.Insert(lines, i, lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " "))]+"as: "+user)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		p.t.Fatal(err)
	}
}
