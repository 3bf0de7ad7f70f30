package readfilter

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

var testCodecs = scheme.Codecs

// under puts a read into the context of a request, as the gate does.
func under(req *http.Request, verb string, pass requestctx.Pass) *http.Request {
	ctx := requestctx.With(req.Context(), &snapshot.Snapshot{})
	requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{Verb: verb, APIVersion: "v1", Resource: "configmaps", Namespace: "default", Name: "x", ResourceRequest: true}, pass)
	return req.WithContext(ctx)
}

// serve answers one request under a condition with a handler, over a real connection.
func serve(t *testing.T, pass requestctx.Pass, handler http.HandlerFunc) (code int, header http.Header, body string) {
	t.Helper()
	filter := Filter(testCodecs, handler)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Before", "stays")
		filter.ServeHTTP(w, under(req, "get", pass))
	}))
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// decide does what the storage does when it has decided.
func decide(req *http.Request) {
	requestctx.From(req.Context()).Reading().(*reading).decided.Store(true)
}

// RD-1, RD-4: what nobody has decided does not leave, however it is written. The same answer passes once it is decided.
func TestOnlyDecidedAnswersLeave(t *testing.T) {
	const secret = "a secret of somebody"
	for name, answer := range map[string]func(http.ResponseWriter){
		"with a status":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK); _, _ = io.WriteString(w, secret) },
		"without a status": func(w http.ResponseWriter) { _, _ = io.WriteString(w, secret) },
		"flushed": func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, secret)
		},
		"flushed by a controller": func(w http.ResponseWriter) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, secret)
		},
		"another status after the first": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, secret)
		},
		"by a redirection": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/"+strings.ReplaceAll(secret, " ", "-"))
			w.WriteHeader(http.StatusFound)
		},
		"in a header":    func(w http.ResponseWriter) { w.Header().Set("ETag", secret); w.WriteHeader(http.StatusOK) },
		"by silence":     func(http.ResponseWriter) {},
		"in many pieces": func(w http.ResponseWriter) { _, _ = w.Write(nil); _, _ = io.WriteString(w, secret) },
	} {
		t.Run(name, func(t *testing.T) {
			pass := requestctx.Conditional(resolves(authorizer.DecisionAllow))
			code, header, body := serve(t, pass, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
			if code != http.StatusForbidden || strings.Contains(body, secret) || header.Get("ETag") != "" || header.Get("Location") != "" {
				t.Errorf("undecided: %d %v %q", code, header, body)
			}
			if !strings.Contains(body, errUndecided.Error()) || header.Get("X-Before") != "stays" {
				t.Errorf("undecided: the answer does not say why: %v %q", header, body)
			}
			code, _, body = serve(t, pass, func(w http.ResponseWriter, req *http.Request) { decide(req); answer(w) })
			if code == http.StatusForbidden || strings.Contains(body, "conditional permission") {
				t.Errorf("decided: %d %q", code, body)
			}
			code, _, body = serve(t, requestctx.Allowed(), func(w http.ResponseWriter, _ *http.Request) { answer(w) })
			if code == http.StatusForbidden || strings.Contains(body, "conditional permission") {
				t.Errorf("allowed without a condition: %d %q", code, body)
			}
		})
	}
	code, _, body := serve(t, requestctx.Conditional(resolves(authorizer.DecisionAllow)), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "not found")
	})
	if code != http.StatusNotFound || body != "not found" {
		t.Errorf("errors pass: %d %q", code, body)
	}
}

// RD-1: a connection is taken over only for what is decided.
func TestOnlyDecidedConnectionsAreTakenOver(t *testing.T) {
	var failed error
	take := func(w http.ResponseWriter) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if failed = err; err != nil {
			return
		}
		defer conn.Close()
		answerOver(rw)
	}
	pass := requestctx.Conditional(resolves(authorizer.DecisionAllow))
	if code, _, body := serve(t, pass, func(w http.ResponseWriter, _ *http.Request) { take(w) }); code != http.StatusForbidden || failed == nil {
		t.Errorf("undecided: %d %q, %v", code, body, failed)
	}
	if code, _, body := serve(t, pass, func(w http.ResponseWriter, req *http.Request) { decide(req); take(w) }); code != http.StatusOK || body != "hi" {
		t.Errorf("decided: %d %q, %v", code, body, failed)
	}
}

func answerOver(rw *bufio.ReadWriter) {
	_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
	_ = rw.Flush()
}
