package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// collected is an event as a collector reads it.
type collected struct {
	AuditID     string
	Stage       string
	Verb        string
	RequestURI  string
	User        struct{ Username string }
	Annotations map[string]string
}

// collector is a sink that takes nothing but well-formed lists, and nothing at all while it is down.
type collector struct {
	down   atomic.Bool
	mu     sync.Mutex
	events []collected
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var list struct{ Items []collected }
	switch {
	case c.down.Load():
		http.Error(w, "down", http.StatusInternalServerError)
		return
	case err != nil || json.Unmarshal(body, &list) != nil || strings.ToValidUTF8(string(body), "") != string(body):
		http.Error(w, "not an event list", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, list.Items...)
}

// of lists the complete events of a user with that in their URI.
func (c *collector) of(user, uri string) (out []collected) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.User.Username == user && strings.Contains(e.RequestURI, uri) && e.Stage == "ResponseComplete" {
			out = append(out, e)
		}
	}
	return out
}

// TestAuditFeed: DA-8, DA-11, DA-15. On the real server, with a sink over HTTP.
func TestAuditFeed(t *testing.T) {
	t.Parallel()
	s := bare.get(t)
	admin := newCaller(t, s.admin)
	feed := &collector{}
	listener := httptest.NewServer(feed)
	t.Cleanup(listener.Close)
	await := func(what string, condition func() bool) {
		t.Helper()
		s.await(what, func() (bool, error) { return condition(), nil })
	}
	admin.must(t, "POST", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: feed},
		spec: {policy: {level: RequestResponse}, webhook: {throttle: {qps: 1000, burst: 1000}, clientConfig: {url: %q}}}}`, listener.URL))
	admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: feed-room}}")
	admin.must(t, "POST", containersIn("feed-room", "policies"), policyYAML("feed-room", "default"))
	admin.must(t, "POST", containersIn("feed-room", "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: feed-room}}")
	admin.must(t, "POST", viewsIn("feed-room", "roles"), roleYAML("dev", `{verbs: [get, patch], resourceKinds: [configmaps]}, {verbs: [create], resourceKinds: [configmaps], when: object.metadata.name == "good"}, `+
		`{deny: true, verbs: [create], resourceKinds: [configmaps], when: object.metadata.name == "worse"}`))
	admin.must(t, "POST", viewsIn("feed-room", "rolebindings"), bindingYAML("devs", "feed-room", "dev"))
	edgar, bystander := newCaller(t, s.as("edgar")), newCaller(t, s.as("bystander"))
	const maps = "/api/v1/namespaces/feed-room/configmaps"
	await("the role", func() bool {
		code, _, _ := edgar.do(t, "GET", maps+"/none", "")
		return code == http.StatusNotFound
	})
	n := 0
	await("the sink", func() bool {
		n++
		bystander.do(t, "GET", fmt.Sprint(maps, "/early", n), "")
		return len(feed.of("bystander", "/early")) > 0
	})

	// DA-8: no event can block another, and none has an identity that its caller chose.
	send := func(c *caller, method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, c.host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/merge-patch+json")
		req.Header.Set("Audit-ID", "chosen")
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for path, body := range map[string]string{
		"/latin":  "{\"data\":{\"k\":\"\xff\xfe\"}}",
		"/deep":   strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		"/binary": "\x00\x01\x02",
		"/plain":  `{"data":{"k":"v"}}`,
	} {
		if code := send(edgar, "PATCH", maps+path, body); code < 400 || code >= 500 {
			t.Errorf("%s: %d", path, code)
		}
	}
	send(bystander, "GET", maps+"/later", "")
	await("what others did later", func() bool { return len(feed.of("bystander", "/later")) == 1 })
	identities := map[string]string{}
	for path, who := range map[string]string{"/latin": "edgar", "/deep": "edgar", "/binary": "edgar", "/plain": "edgar", "/later": "bystander"} {
		await(path, func() bool { return len(feed.of(who, maps+path)) == 1 })
		e := feed.of(who, maps+path)[0]
		id := e.Annotations["audit.proviso.dev/event-id"]
		if e.AuditID != "chosen" || id == "" || id == "chosen" || identities[id] != "" {
			t.Errorf("%s: audit ID %q, identity %q, which %q has", path, e.AuditID, id, identities[id])
		}
		identities[id] = path
	}

	// DA-15, CA-21: the outcome is the final decision, as the enforcer or the filter made it.
	for name, want := range map[string]struct {
		caller        *caller
		who           string
		outcome, code string
	}{
		"good":  {edgar, "edgar", "Allow", "201"},
		"bad":   {edgar, "edgar", "NoOpinion", "403"},
		"worse": {edgar, "edgar", "Deny", "403"},
		"other": {bystander, "bystander", "NoOpinion", "403"},
	} {
		path := maps + "?fieldManager=" + name
		code, message, _ := want.caller.do(t, "POST", path, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}")
		if fmt.Sprint(code) != want.code {
			t.Errorf("%s: %d %s", name, code, message)
		}
		await("the event of "+name, func() bool { return len(feed.of(want.who, path)) == 1 })
		if got := feed.of(want.who, path)[0].Annotations["authorization.proviso.dev/outcome"]; got != want.outcome {
			t.Errorf("%s: outcome %q, want %q", name, got, want.outcome)
		}
	}

	// DA-11: a sink that stops taking events, and takes them again, is an Event each time.
	client := kubernetes.NewForConfigOrDie(s.admin)
	told := func(kind, text string) bool {
		list, err := client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=AuditSink,involvedObject.name=feed,type=" + kind})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) > 0 && strings.Contains(list.Items[0].Message, text) && list.Items[0].InvolvedObject.UID != ""
	}
	if told("Warning", "") {
		t.Error("an Event about a sink that takes everything")
	}
	feed.down.Store(true)
	await("the Event that it fails", func() bool { return told("Warning", "Events are not delivered") })
	feed.down.Store(false)
	await("the Event that it works again", func() bool { return told("Normal", "Events are delivered again") })
}
