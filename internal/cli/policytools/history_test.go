package policytools

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/hosts/offline/replay"
)

// journaling is a server with one protected attribute and a cluster role, and a journal of how they came about.
func journaling(t *testing.T, entries ...string) (kubeconfig string) {
	t.Helper()
	const policy, rbac = "/apis/policy.proviso.dev/v1alpha1", "/apis/rbac.authorization.k8s.io/v1"
	list := func(kind, apiVersion, items string) string {
		return fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"9"},"items":[%s]}`, kind, apiVersion, items)
	}
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","groups":[
			{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}},
			{"name":"policy.proviso.dev","versions":[{"groupVersion":"policy.proviso.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"policy.proviso.dev/v1alpha1","version":"v1alpha1"}}]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get"]}]}`,
		rbac:      `{"kind":"APIResourceList","groupVersion":"rbac.authorization.k8s.io/v1","resources":[{"name":"clusterroles","kind":"ClusterRole","verbs":["list"]}]}`,
		policy:    `{"kind":"APIResourceList","groupVersion":"policy.proviso.dev/v1alpha1","resources":[{"name":"clusterprotectedattributes","kind":"ClusterProtectedAttribute","verbs":["list"]}]}`,

		rbac + "/clusterroles":                 list("ClusterRole", "rbac.authorization.k8s.io/v1", journaledRole),
		policy + "/clusterprotectedattributes": list("ClusterProtectedAttribute", "policy.proviso.dev/v1alpha1", journaledAttribute),
		base.HistoryPath:                       `{"entries":[` + strings.Join(entries, ",") + `]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	dir := write(t, map[string]string{"kubeconfig": fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)})
	return filepath.Join(dir, "kubeconfig")
}

const (
	journaledRole      = `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"keepers"},"rules":[]}`
	journaledAttribute = `{"kind":"ClusterProtectedAttribute","apiVersion":"policy.proviso.dev/v1alpha1","metadata":{"name":"tier"},"attributeKind":"Label","attributeName":"tier","roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"keepers"}}`
)

// TR-15, TR-18, NI-8: what may differ counts as a difference of two revisions, as it does in a plan.
func TestHistoryDiffCountsWhatMayDiffer(t *testing.T) {
	entry := func(revision int, group, resource, name, after string) string {
		return fmt.Sprintf(`{"revision":%d,"time":"2026-01-01T00:00:00Z","user":"mona","verb":"create","apiGroup":%q,"resource":%q,"name":%q,"after":%s}`, revision, group, resource, name, after)
	}
	config := journaling(t, entry(3, "rbac.authorization.k8s.io", "clusterroles", "keepers", journaledRole), entry(5, "policy.proviso.dev", "clusterprotectedattributes", "tier", journaledAttribute))
	for diff, test := range map[string]struct {
		code int
		want string
	}{
		"3..5":   {2, `may change: ClusterProtectedAttribute tier is new: only members of ClusterRole "keepers" may set what it protects`},
		"3..now": {2, "ClusterProtectedAttribute tier is new"},
		"5..now": {0, "Nobody gains or loses anything."},
	} {
		out, code, err := execute(t, NewHistoryCommand, "", "--kubeconfig", config, "--diff", diff)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s: %d %v, want %d\n%s", diff, code, err, test.code, out)
		}
	}
}

// TR-2, NI-8: a report that says that something changes, or may, is never a report without a difference.
func TestReportsThatDiffer(t *testing.T) {
	for name, text := range map[string]string{"changes": `{"changes":[{}]}`, "unknown": `{"unknown":["x"]}`, "rejected": `{"rejected":[{}]}`, "replay": `{"replay":{"flips":[{}]}}`} {
		report := &policychange.Report{}
		if err := json.Unmarshal([]byte(text), report); err != nil || !report.Differs() {
			t.Errorf("%s: no difference (%v)", name, err)
		}
	}
	if (&policychange.Report{Replay: &replay.Report{Requests: 1, Undecided: 1}}).Differs() || (&policychange.Report{}).Differs() {
		t.Error("nothing is a difference")
	}
}
