package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	auditGroup   = "auditregistration.k8s.io/v1alpha1"
	auditSinks   = "/apis/" + auditGroup + "/auditsinks"
	auditClasses = "/apis/" + auditGroup + "/auditclasses"
	configMaps   = "/api/v1/namespaces/default/configmaps"
	secrets      = "/api/v1/namespaces/default/secrets"
)

type m = map[string]any

// sink is a sink without a level of its own.
func sink(name string, webhook m, rules ...m) m {
	return object(auditGroup, "AuditSink", name, m{"policy": m{"level": "None", "rules": rules}, "webhook": webhook})
}

func rule(class, level string) m { return m{"withAuditClass": class, "level": level} }

// writesOf is a class of the writes of core resources.
func writesOf(name string, kinds ...string) m {
	var resources []m
	for _, k := range kinds {
		resources = append(resources, m{"kind": k})
	}
	return object(auditGroup, "AuditClass", name, m{"rules": []m{{"verbs": []string{"create"}, "groupResourceSelectors": []m{{"group": "", "resources": resources}}}}})
}

func configMap(name string) m {
	return m{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m{"name": name}, "data": m{"k": "v"}}
}
func secret(name string) m {
	return m{"apiVersion": "v1", "kind": "Secret", "metadata": m{"name": name}}
}

// Dynamic audit on the built server, with sinks behind real HTTP and HTTPS.
func TestDynamicAudit(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	static := filepath.Join(dir, "static.log")
	policy := filepath.Join(dir, "policy.yaml")
	// DA-7: the static policy audits what happens to the sinks.
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [create], resources: [{group: auditregistration.k8s.io}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir+"/d", "--audit-dynamic-allow-insecure-sinks", "--audit-dynamic-max-sinks=3", "--audit-policy-file="+policy, "--audit-log-path="+static)
	c := s.caller()
	full, brief := collect(t, true), collect(t, false)
	active := func(name string) {
		t.Helper()
		s.kubectl("wait", "--for=condition=Active", "auditsink/"+name, "--timeout=60s")
	}
	arrives := func(at *collector, id string) auditv1.Event {
		t.Helper()
		s.await("event "+id, func() bool { return len(at.of(id)) > 0 })
		return at.of(id)[0]
	}

	t.Run("a sink waits for its class", func(t *testing.T) { // DA-4
		c.must("sink-full", "POST", auditSinks, sink("full", full.webhook(), rule("writes", "RequestResponse")))
		s.await("the missing class in the status", func() bool {
			return strings.Contains(s.kubectl("get", "auditsink", "full", "-o", "jsonpath={.status.conditions[?(@.type=='Active')]}{.status.missingClasses}"), `["writes"]`)
		})
		c.must("early", "POST", configMaps, configMap("early"))
		c.must("", "POST", auditClasses, writesOf("writes", "configmaps"))
		active("full")
		c.must("late", "POST", configMaps, configMap("late"))
		arrives(full, "late")
		if len(full.of("early")) > 0 {
			t.Error("an inactive sink got an event")
		}
	})

	t.Run("two sinks, two levels, one request", func(t *testing.T) { // DA-6, DA-8
		c.must("", "POST", auditSinks, sink("brief", brief.webhook(), rule("writes", "Metadata")))
		active("brief")
		c.must("both", "POST", configMaps, configMap("both"))
		a, b := arrives(full, "both"), arrives(brief, "both")
		if a.Level != "RequestResponse" || a.RequestObject == nil || a.ResponseObject == nil || !strings.Contains(string(a.RequestObject.Raw), `"k":"v"`) {
			t.Errorf("the sink that wants everything got %+v", a)
		}
		if b.Level != "Metadata" || b.RequestObject != nil || b.ResponseObject != nil || b.ObjectRef.Name != "both" {
			t.Errorf("the sink that wants metadata got %+v", b)
		}
		for _, e := range []auditv1.Event{a, b} { // DA-1
			if e.Stage != auditv1.StageResponseComplete || e.User.Username == "" || e.ResponseStatus.Code != http.StatusCreated {
				t.Errorf("event is %+v", e)
			}
		}
	})

	t.Run("a dead sink holds up nobody", func(t *testing.T) { // DA-6, DA-11
		full.down.Store(true)
		c.must("dead", "POST", configMaps, configMap("dead"))
		arrives(brief, "dead")
		s.await("the error in the status", func() bool {
			return s.kubectl("get", "auditsink", "full", "-o", "jsonpath={.status.lastError}") != ""
		})
		full.down.Store(false)
		arrives(full, "dead")
	})

	t.Run("a class changes", func(t *testing.T) { // DA-4
		c.must("secret-1", "POST", secrets, secret("one"))
		c.must("", "PATCH", auditClasses+"/writes", m{"spec": writesOf("", "secrets")["spec"]})
		n := 0
		s.await("the new class in effect", func() bool {
			n++
			id := fmt.Sprintf("secret-more-%d", n)
			c.must(id, "POST", secrets, secret(id))
			time.Sleep(20 * time.Millisecond)
			return len(brief.of(id)) > 0
		})
		c.must("unwanted", "POST", configMaps, configMap("unwanted"))
		c.must("marker", "POST", secrets, secret("marker")) // a sink gets its events in order
		arrives(brief, "marker")
		if len(brief.of("secret-1"))+len(brief.of("unwanted")) > 0 {
			t.Error("a sink got what its class did not select at the time")
		}
		t.Logf("median delay of a changed class %s, largest %s", classDelays(t, s, c, brief)...)
	})

	t.Run("refused", func(t *testing.T) { // DA-1, DA-2, DA-3, DA-4
		class := func(rules ...m) m { return object(auditGroup, "AuditClass", "bad", m{"rules": rules}) }
		both := m{"groupResourceSelectors": []m{{"group": ""}}, "nonResourceSelectors": m{"urls": []string{"/version"}}}
		for _, tc := range []struct {
			path   string
			object m
			want   string
		}{
			{auditClasses, class(), "spec.rules: Required"},
			{auditClasses, class(both), "spec.rules[0].nonResourceSelectors"},
			{auditSinks, sink("bad", brief.webhook(), rule("writes", "Everything")), "spec.policy.rules[0].level"},
			{auditSinks, sink("bad", m{"clientConfig": m{"url": "gopher://x.example"}}), "spec.webhook.clientConfig.url"},
			{auditSinks, sink("bad", m{"clientConfig": m{}}), "spec.webhook.clientConfig"},
			{auditSinks, object(auditGroup, "AuditSink", "bad", m{"policy": m{"level": "All"}}), "spec.policy.level"},
		} {
			if code, answer := c.send("", "POST", tc.path, tc.object); code != http.StatusUnprocessableEntity || !strings.Contains(answer, tc.want) {
				t.Errorf("want 422 with %q, got %d %s", tc.want, code, answer)
			}
		}
		if code, answer := c.send("", "DELETE", auditClasses+"/writes", nil); code != http.StatusConflict || !strings.Contains(answer, "brief, full") {
			t.Errorf("deleting a class in use: %d %s", code, answer)
		}
		// DA-10
		s.person("edgar").mayNot("auditsinks", "get", "auditsinks")
	})

	t.Run("the seed's example", func(t *testing.T) { // DA-14, DA-9
		s.kubectl("apply", "-f", "../../examples/dynamic-audit/example-1.yaml")
		s.await("the sink to say that it has no webhook", func() bool {
			return strings.Contains(s.kubectl("get", "auditsinks"), "NoWebhook")
		})
		if code, answer := c.send("", "POST", auditSinks, sink("fourth", brief.webhook())); code != http.StatusForbidden || !strings.Contains(answer, "--audit-dynamic-max-sinks") {
			t.Errorf("one sink too many: %d %s", code, answer)
		}
		s.kubectl("delete", "auditsink", "mysink")
		c.must("", "POST", auditSinks, sink("fourth", brief.webhook())) // there is room again
		s.kubectl("delete", "auditsink", "fourth")
		s.kubectl("delete", "auditclass", "sensitive-things", "noisy-lowrisk-things")
		if out, err := s.try("", "apply", "--dry-run=server", "-f", "../../examples/dynamic-audit/sinks.yaml"); err != nil {
			t.Errorf("sinks.yaml: %v\n%s", err, out)
		}
	})

	t.Run("static audit", func(t *testing.T) { // DA-7
		log, err := os.ReadFile(static)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(log), `"auditID":"sink-full"`) || strings.Contains(string(log), `"auditID":"both"`) {
			t.Errorf("the static log is not that of its own policy:\n%.2000s", log)
		}
	})

	t.Run("tail", func(t *testing.T) { testAuditTail(t, s, c) })
}

// classDelays changes a class again and again and looks for the first request that was judged by the new one. The
// delays are for people: no machine's speed fails the test.
func classDelays(t *testing.T, s *server, c *caller, at *collector) []any {
	t.Helper()
	const rounds = 10
	var delays []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("probe-%d", i)
		spec := m{"rules": []m{{"groupResourceSelectors": []m{{"group": "", "resources": []m{{"kind": "configmaps", "objectNames": []string{name}}}}}}}}
		c.must("", "PATCH", auditClasses+"/writes", m{"spec": spec})
		begin := time.Now()
		found := time.Duration(-1)
		sent := map[string]time.Duration{}
		s.await("the class in round "+name, func() bool {
			for range 10 {
				id := fmt.Sprintf("%s-%d", name, len(sent))
				sent[id] = time.Since(begin)
				c.send(id, "GET", configMaps+"/"+name, nil)
			}
			for id, after := range sent {
				if len(at.of(id)) > 0 && (found < 0 || after < found) {
					found = after
				}
			}
			return found >= 0
		})
		delays = append(delays, found)
	}
	slices.Sort(delays)
	return []any{delays[rounds/2], delays[rounds-1]}
}

// DA-13: live events for whoever may write a sink, and nothing stays behind.
func testAuditTail(t *testing.T, s *server, c *caller) {
	tail := func(kubeconfig string, args ...string) *process {
		p := spawn(t, binary(t), append([]string{"audit", "tail", "--kubeconfig", kubeconfig}, args...)...)
		return p
	}
	shows := func(p *process, what string) {
		t.Helper()
		p.await(what, func() bool { return strings.Contains(p.output.String(), what) })
	}
	const begun = "Showing audit events"
	before := s.kubectl("get", "auditsinks,auditclasses", "-o", "name")

	raw := tail(s.kubeconfig, "--resource", "configmaps", "--verb", "create", "--level", "Request", "-o", "json")
	lines := tail(s.kubeconfig, "--resource", "secrets", "-n", "default")
	shows(raw, begun)
	shows(lines, begun)
	if during := s.kubectl("get", "auditsinks,auditclasses", "-o", "name"); during != before {
		t.Errorf("a subscription is in the API:\n%s", during)
	}
	c.must("tail-secret", "POST", secrets, secret("tailed"))
	c.must("tail-1", "POST", configMaps, configMap("tail-1"))
	shows(raw, `"auditID":"tail-1"`)
	shows(lines, "201  ")
	if out := raw.output.String(); strings.Contains(out, "tail-secret") {
		t.Errorf("the selectors did not select:\n%s", out)
	}
	if out := lines.output.String(); !strings.Contains(out, "create  "+secrets) || strings.Contains(out, "\x1b") {
		t.Errorf("lines are\n%s", out)
	}
	_, first, _ := strings.Cut(raw.output.String(), "\n")
	var event auditv1.Event
	if err := json.Unmarshal([]byte(strings.SplitN(first, "\n", 2)[0]), &event); err != nil || event.Level != "Request" || event.RequestObject == nil || event.ResponseObject != nil {
		t.Errorf("event is %+v, %v", event, err)
	}
	raw.signal(syscall.SIGINT)
	if code := raw.wait(); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, raw.output)
	}

	// Bad questions say what is wrong and show nothing.
	for _, tc := range []struct{ flags, want string }{
		{"--level=None", "level"},
		{"--class=missing", "missing"},
		{"--class=writes --verb=get", "class"},
		{"--resource=Pods", "kind"},
	} {
		p := tail(s.kubeconfig, strings.Fields(tc.flags)...)
		if code := p.wait(); code != 3 || !strings.Contains(p.output.String(), tc.want) || strings.Contains(p.output.String(), begun) {
			t.Errorf("%s: exit code %d\n%s", tc.flags, code, p.output)
		}
	}
	if code, answer := c.send("", "GET", "/proviso/audit/tail?verbs=get", nil); code != http.StatusBadRequest || !strings.Contains(answer, "verbs") {
		t.Errorf("unknown parameter: %d %s", code, answer)
	}

	// The URL alone is not enough; with the right to write a sink it is, for as long as that lasts.
	mona, err := s.issue("mona")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(why string) {
		t.Helper()
		var out string
		s.await("a refusal with "+why, func() bool {
			p := tail(mona)
			code := p.wait()
			out = p.output.String()
			return code == 3 && strings.Contains(out, why)
		})
	}
	refused("cannot get path")
	s.kubectl("create", "clusterrole", "audit-path", "--verb=get", "--non-resource-url=/proviso/audit/tail")
	s.kubectl("create", "clusterrolebinding", "audit-path", "--clusterrole=audit-path", "--user=mona")
	refused("may create auditsinks")
	s.kubectl("apply", "-f", "../../examples/dynamic-audit/tail-role.yaml")
	s.kubectl("create", "clusterrolebinding", "audit-tail", "--clusterrole=audit-tail", "--user=mona")
	var watching *process
	s.await("mona to be let in", func() bool {
		watching = tail(mona)
		for {
			select {
			case <-watching.done:
				return false
			case <-time.After(20 * time.Millisecond):
				if strings.Contains(watching.output.String(), begun) {
					return true
				}
			}
		}
	})
	c.must("tail-2", "POST", configMaps, configMap("tail-2"))
	shows(watching, configMaps)
	s.kubectl("delete", "clusterrolebinding", "audit-tail")
	if code := watching.wait(); code != 0 {
		t.Errorf("the end of the stream: exit code %d\n%s", code, watching.output)
	}

	// An open stream does not hold up the end of the server.
	s.stop()
	if code := lines.wait(); code != 0 {
		t.Errorf("the end of the server: exit code %d\n%s", code, lines.output)
	}
}
