package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestTokensReachOtherServers: an aggregated server gets the links by value and never the token, and only what a link
// allows without a condition reaches it (TK-5).
func TestTokensReachOtherServers(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	var mu sync.Mutex
	var got http.Header
	other := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		if strings.TrimSuffix(r.URL.Path, "/") == "/apis/tk.remote.io/v1" {
			_, _ = io.WriteString(out, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"tk.remote.io/v1","resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["get"]}]}`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = r.Header.Clone()
		_, _ = io.WriteString(out, `{"kind":"Thing","apiVersion":"tk.remote.io/v1","metadata":{"name":"x"}}`)
	}))
	defer other.Close()
	addr, ok := other.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v", other.Listener.Addr())
	}
	w.expect("service", w.send(w.s.admin, "", "POST", "/api/v1/namespaces/default/services", fmt.Sprintf(
		`{"metadata":{"name":"tk-other"},"spec":{"type":"ExternalName","externalName":"localhost","ports":[{"port":%d}]}}`, addr.Port)), http.StatusCreated, "")
	w.expect("APIService", w.send(w.s.admin, "", "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"v1.tk.remote.io"},"spec":{"group":"tk.remote.io","version":"v1","groupPriorityMinimum":2000,
		"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"tk-other","port":%d}}}`, addr.Port)), http.StatusCreated, "")
	defer func() {
		w.expect("the end", w.send(w.s.admin, "", "DELETE", servicesPath+"/v1.tk.remote.io", ""), http.StatusOK, "")
	}()
	const path = "/apis/tk.remote.io/v1/namespaces/default/things/x"
	una := w.can("tk-una", anything())
	w.s.await("the other server", func() (bool, error) { return w.send(una, "", "GET", path, "").code == http.StatusOK, nil })

	token, status := w.issue(una, "", `{"description":"build agent","rules":[{"verbs":["get"],"resourceKinds":["things.tk.remote.io"]}]}`)
	w.expect("what a link allows", w.send(una, token, "GET", path, ""), http.StatusOK, "Thing")
	mu.Lock()
	links := ""
	for name, values := range got {
		text := strings.Join(values, "\n")
		if strings.Contains(text, token[10:]) {
			t.Errorf("%s has the token", name)
		}
		if key, err := url.PathUnescape(strings.TrimPrefix(strings.ToLower(name), "x-remote-extra-")); err == nil && key == "authentication.proviso.dev/links" {
			links = text
		}
	}
	if !strings.Contains(links, `"build agent"`) || !strings.Contains(fmt.Sprint(got), status.ID) || got.Get("Authorization") != "" {
		t.Errorf("the other server gets %v", got)
	}
	got = nil
	mu.Unlock()

	some, _ := w.issue(una, "", `{"rules":[{"verbs":["get"],"resourceKinds":["things.tk.remote.io"],"where":"resource.metadata.name == 'x'"}]}`)
	w.expect("what a link allows under a condition", w.send(una, some, "GET", path, ""), http.StatusForbidden, "your token does not allow it: link 1")
	w.expect("what it does not allow", w.send(una, token, "DELETE", path, ""), http.StatusForbidden, "your token does not allow it: link 1")
	mu.Lock()
	defer mu.Unlock()
	if got != nil {
		t.Errorf("a request that was refused has reached the other server: %v", got)
	}
}
