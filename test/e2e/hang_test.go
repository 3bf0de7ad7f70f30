package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hookTimeout is the configured limit of the webhook that hangs.
const hookTimeout = 4 * time.Second

// forever is less than a minute, after which the server gives up on every request and every open connection.
const forever = 45 * time.Second

// silent is a webhook authorizer that takes questions and never answers, except that it answers about secrets with a
// condition that only it understands, about which it is silent later.
func silent(t *testing.T) *httptest.Server {
	t.Helper()
	end := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/reviews" && strings.Contains(string(body), `"resource":"secrets"`) {
			w.Header().Set("Content-Type", "application/json")
			effect := "Allow"
			if strings.Contains(string(body), `"user":"closed-unless`) {
				effect = "Deny"
			}
			_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false,"conditionsChain":[{"conditions":[{"id":"silent.example.com/later","effect":%q,"type":"silent.example.com/later","condition":"later"}]}]}}`, effect)
			return
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(end)
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// silentConfig puts the webhook twice in front of RBAC: for closed-… a failure refuses, for open-… it is no opinion.
func silentConfig(t *testing.T, hook *httptest.Server) string {
	t.Helper()
	kubeconfig := hookKubeconfig(t, hook)
	webhook := func(name, failure string) m {
		return m{"type": "Webhook", "name": name, "webhook": m{
			"connectionInfo": m{"type": "KubeConfigFile", "kubeConfigFile": kubeconfig}, "conditionsEndpointKubeConfigContext": "conditions",
			"subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": failure,
			"matchConditions": []m{{"expression": fmt.Sprintf("request.user.startsWith('%s-')", name)}},
			"timeout":         hookTimeout.String(), "authorizedTTL": "1m", "unauthorizedTTL": "1s"}}
	}
	return authorizationConfig(t, webhook("closed", "Deny"), webhook("open", "NoOpinion"), m{"type": "Policy", "name": "policy"}, m{"type": "RBAC", "name": "rbac"})
}

// authorizationConfig is a file for --authorization-config.
func authorizationConfig(t *testing.T, authorizers ...m) string {
	t.Helper()
	config, err := json.Marshal(m{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tempDir(t), "authorization.yaml")
	write(t, path, string(config))
	return path
}

// hookKubeconfig is a file with a context for each endpoint of a webhook.
func hookKubeconfig(t *testing.T, hook *httptest.Server) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	var clusters, contexts []m
	for _, name := range []string{"reviews", "conditions"} {
		clusters = append(clusters, m{"name": name, "cluster": m{"server": hook.URL + "/" + name, "certificate-authority-data": ca}})
		contexts = append(contexts, m{"name": name, "context": m{"cluster": name}})
	}
	kubeconfig, err := json.Marshal(m{"apiVersion": "v1", "kind": "Config", "current-context": "reviews", "clusters": clusters, "contexts": contexts})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tempDir(t), "hook.kubeconfig")
	write(t, path, string(kubeconfig))
	return path
}

// CA-17, SV-8, DA-6: a webhook authorizer that hangs costs those whom it is asked about the configured time, and then
// refuses them, or has no opinion if it is configured so; nobody else waits. A sink that hangs holds up no request, no
// other sink and not the end of the server, and gets everything when it answers again.
func TestWhatHangs(t *testing.T) {
	dir := tempDir(t) + "/d"
	config := silentConfig(t, silent(t))
	s := serve(t, dir, "--authorization-config", config, "--audit-dynamic-allow-insecure-sinks")
	admin := s.caller()
	s.kubectl("create", "rolebinding", "all", "--clusterrole=edit", "--group=staff", "-n", "default")

	t.Run("webhook", func(t *testing.T) {
		type answer struct {
			code int
			text string
			took time.Duration
		}
		ask := func(user, method, path string, object any) answer {
			begin := time.Now()
			var groups []string
			if !strings.Contains(user, "-if-") { // they have nothing but what the webhook gives them
				groups = append(groups, "staff")
			}
			code, text := s.callerAs(user, groups...).send("", method, path, object)
			return answer{code, text, time.Since(begin)}
		}
		s.await("the binding", func() bool { return ask("anybody", "GET", configMaps, nil).code == http.StatusOK })
		var all sync.WaitGroup
		closed, open, unless, iff := make([]answer, 8), make([]answer, 8), make([]answer, 4), make([]answer, 4)
		for i := range closed {
			all.Go(func() { closed[i] = ask(fmt.Sprintf("closed-%d", i), "GET", configMaps, nil) })
			all.Go(func() { open[i] = ask(fmt.Sprintf("open-%d", i), "GET", configMaps, nil) })
		}
		for i := range unless {
			all.Go(func() {
				unless[i] = ask(fmt.Sprintf("closed-unless-%d", i), "POST", secrets, secret("later"))
			})
			all.Go(func() { iff[i] = ask(fmt.Sprintf("open-if-%d", i), "POST", secrets, secret("later")) })
		}
		hung := make(chan struct{})
		go func() {
			all.Wait()
			close(hung)
		}()
		// Everybody else, all the while.
		var others []time.Duration
		for waiting := true; waiting; {
			select {
			case <-hung:
				waiting = false
			default:
				a := ask(fmt.Sprintf("anybody-%d", len(others)%20), "GET", configMaps, nil)
				if a.code != http.StatusOK {
					t.Fatalf("somebody whom the webhook is not asked about got %d %s", a.code, a.text)
				}
				others = append(others, a.took)
			}
		}
		// A busy machine may delay a single request; half of them wait only if all do.
		slices.Sort(others)
		if len(others) == 0 || others[len(others)/2] >= hookTimeout {
			t.Errorf("half of those whom the webhook is not asked about waited as long as the webhook may take: %v", others)
		}
		for _, a := range closed {
			// As upstream has it: an authorizer that fails closed is an error of the server.
			if a.code != http.StatusInternalServerError || a.took < hookTimeout || a.took > forever {
				t.Errorf("failurePolicy Deny: %d after %s: %s", a.code, a.took, a.text)
			}
		}
		for _, a := range open {
			if a.code != http.StatusOK || a.took < hookTimeout || a.took > forever {
				t.Errorf("failurePolicy NoOpinion: %d after %s: %s", a.code, a.took, a.text)
			}
		}
		for _, a := range slices.Concat(unless, iff) {
			if a.code != http.StatusForbidden || a.took < hookTimeout || a.took > forever {
				t.Errorf("a condition that is never evaluated: %d after %s: %s", a.code, a.took, a.text)
			}
		}
		if code, text := admin.send("", "GET", secrets+"/later", nil); code != http.StatusNotFound {
			t.Errorf("a secret was stored without its condition: %d %s", code, text)
		}
		t.Logf("%d requests of others while %d hung; refused after %s, conditions after %s", len(others), len(closed)+len(open)+len(unless)+len(iff), closed[0].took.Round(time.Millisecond), unless[0].took.Round(time.Millisecond))
	})

	t.Run("sink", func(t *testing.T) {
		stuck, lively := collect(t, false), collect(t, false)
		stuck.hang()
		admin.must("", "POST", auditClasses, writesOf("writes", "configmaps"))
		admin.must("", "POST", auditSinks, sink("stuck", stuck.webhook(), rule("writes", "Request")))
		admin.must("", "POST", auditSinks, sink("lively", lively.webhook(), rule("writes", "Request")))
		s.kubectl("wait", "--for=condition=Active", "auditsink/stuck", "auditsink/lively", "--timeout=60s")
		const n = 200
		for i := range n {
			id := fmt.Sprintf("hang-%d", i)
			admin.must(id, "POST", configMaps, configMap(id))
		}
		s.await("the other sink to have them all", func() bool {
			for i := range n {
				if len(lively.of(fmt.Sprintf("hang-%d", i))) == 0 {
					return false
				}
			}
			return true
		})
		s.await("the sink to be asked", func() bool { return stuck.waiting.Load() > 0 })
		begin := time.Now()
		s.stop()
		if took := time.Since(begin); took > forever {
			t.Errorf("the end of the server waited %s for the sink", took)
		}
		s = serve(t, dir, "--authorization-config", config, "--audit-dynamic-allow-insecure-sinks")
		stuck.release()
		s.await("the sink that hung to have them all", func() bool {
			for i := range n {
				if len(stuck.of(fmt.Sprintf("hang-%d", i))) == 0 {
					return false
				}
			}
			return true
		})
	})
}
