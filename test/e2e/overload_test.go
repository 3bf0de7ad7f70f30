package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// soak multiplies the length of the long tests; PROVISO_SOAK, 1 by default.
func soak(n int) int {
	if factor, err := strconv.Atoi(os.Getenv("PROVISO_SOAK")); err == nil && factor > 0 {
		return n * factor
	}
	return n
}

// crowd makes requests over a connection for each client.
type crowd struct {
	host string
	tls  *tls.Config
}

func (s *server) crowd(t *testing.T) *crowd {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{config.Host, secure}
}

// client has one connection of its own.
func (c *crowd) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls.Clone(), MaxConnsPerHost: 1}, Timeout: patience}
}

// send returns the code, or 0 without an answer.
func (c *crowd) send(ctx context.Context, client *http.Client, user, group, method, path string, object any) (int, string) {
	body, err := json.Marshal(object)
	if err != nil {
		return 0, err.Error()
	}
	req, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if user != "" {
		req.Header.Set("Impersonate-User", user)
		req.Header.Set("Impersonate-Group", group)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

const loadPolicy = `
apiVersion: v1
kind: Namespace
metadata: {name: load}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: load}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: load, namespace: load}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: readers, namespace: load}
rules: [{verbs: [get], resourceKinds: [configmaps]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: writers, namespace: load}
rules:
- {verbs: [create], resourceKinds: [configmaps], where: "has(resource.data) && 'env' in resource.data && resource.data.env == 'dev'"}
- {deny: true, verbs: [create], resourceKinds: [configmaps], where: "resource.metadata.name.startsWith('banned-')"}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: readers, namespace: load}
roleRef: {namespace: load, name: readers}
groupNames: [readers]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: writers, namespace: load}
roleRef: {namespace: load, name: writers}
groupNames: [writers]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: there, namespace: load}
`

// SV-9, CA-7, PO-4: 2,000 clients at once, half of them one user, with priority and fairness on and room for a few
// requests only. Load is shed with 429; every request that is answered is answered rightly, whether it is allowed,
// refused, allowed or refused by its object; nothing that is refused is stored; the administrator gets through all the
// while.
func TestOverloadShedsLoadNotAccessControl(t *testing.T) {
	const clients = 2000
	each := soak(2)
	s := serve(t, tempDir(t)+"/d", "--max-requests-inflight=20", "--max-mutating-requests-inflight=10", "--request-timeout=40s")
	s.apply(loadPolicy)
	c := s.crowd(t)
	const maps = "/api/v1/namespaces/load/configmaps"
	env := func(name, env string) m { return m{"metadata": m{"name": name}, "data": m{"env": env}} }
	// kinds of clients: what they ask for and what the answer must be.
	kinds := []struct {
		name, group, method string
		path                string
		object              func(id string) any
		want                int
	}{
		{"allowed", "readers", "GET", maps + "/there", func(string) any { return nil }, 200},
		{"refused", "writers", "GET", maps + "/there", func(string) any { return nil }, 403},
		{"condition met", "writers", "POST", maps + "?dryRun=All", func(id string) any { return env(id, "dev") }, 201},
		{"condition not met", "writers", "POST", maps, func(id string) any { return env(id, "prod") }, 403},
		{"denied by its object", "writers", "POST", maps, func(id string) any { return env("banned-"+id, "dev") }, 403},
		{"nobody", "strangers", "POST", maps, func(id string) any { return env(id, "dev") }, 403},
	}
	for _, k := range kinds {
		s.await("the policy: "+k.name, func() bool {
			code, _ := c.send(t.Context(), c.client(), "first", k.group, k.method, k.path, k.object("first"))
			return code == k.want
		})
	}

	var right, shed, unanswered atomic.Int64
	var wrong sync.Map
	var all sync.WaitGroup
	begin, ready := make(chan struct{}), make(chan struct{}, clients)
	for i := range clients {
		all.Go(func() {
			client := c.client()
			defer client.CloseIdleConnections()
			k := kinds[i%len(kinds)]
			user := fmt.Sprintf("client-%d", i)
			if i%2 == 0 {
				user = "flood"
			}
			ready <- struct{}{}
			<-begin
			for n := range each {
				code, text := c.send(t.Context(), client, user, k.group, k.method, k.path, k.object(fmt.Sprintf("c%d-%d", i, n)))
				switch {
				case code == k.want:
					right.Add(1)
				case code == http.StatusTooManyRequests:
					shed.Add(1)
				case code == 0 || code == http.StatusGatewayTimeout:
					unanswered.Add(1)
				default:
					wrong.Store(fmt.Sprintf("%s, %s: want %d, got %d %.300s", user, k.name, k.want, code, text), true)
				}
			}
		})
	}
	for range clients {
		<-ready
	}
	start := time.Now()
	close(begin)
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	admin := c.client()
	var probes int
	for under := true; under; {
		select {
		case <-done:
			under = false
		default:
			if code, text := c.send(t.Context(), admin, "", "", "GET", maps+"/there", nil); code != http.StatusOK {
				t.Errorf("the administrator under load: %d %s", code, text)
			}
			probes++
		}
	}
	took := time.Since(start)
	wrong.Range(func(text, _ any) bool {
		t.Errorf("a wrong answer under load: %s", text)
		return true
	})
	if right.Load() == 0 || shed.Load() == 0 {
		t.Errorf("%d right answers, %d shed: the load was no overload, or nothing got through", right.Load(), shed.Load())
	}
	t.Logf("%d clients, %d requests in %s: %d answered rightly, %d shed, %d without an answer, %d probes", clients, clients*each, took.Round(time.Millisecond), right.Load(), shed.Load(), unanswered.Load(), probes)

	// Nothing that was refused is there, and everything is as before.
	if names := strings.Fields(s.kubectl("get", "configmaps", "-n", "load", "-o", "jsonpath={.items[*].metadata.name}")); len(names) != 2 { // there, kube-root-ca.crt
		t.Errorf("stored under load: %v", names)
	}
	for _, k := range kinds {
		if code, text := c.send(t.Context(), c.client(), "last", k.group, k.method, k.path, k.object("last")); code != k.want {
			t.Errorf("afterwards, %s: want %d, got %d %s", k.name, k.want, code, text)
		}
	}
	if out := s.kubectl("get", "--raw", "/metrics"); !strings.Contains(out, "apiserver_flowcontrol_rejected_requests_total{") {
		t.Error("priority and fairness rejected nothing")
	}
}
