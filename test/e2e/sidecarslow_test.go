package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// answer is what came back.
type answer struct {
	code int
	text string
}

// held sends a request whose body comes only when it is released. It returns once the request has been authorized,
// which is when its body is asked for.
func (p *pair) held(t *testing.T, user string, request *http.Request, text string) (release func() answer) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	body := &lateBody{asked: make(chan struct{}), sent: make(chan struct{}), text: strings.NewReader(text)}
	request.Body, request.ContentLength = io.NopCloser(body), -1
	request.Header.Set("Impersonate-User", user)
	request.Header.Set("Expect", "100-continue")
	answered := make(chan answer, 1)
	go func() {
		response, err := (&http.Transport{TLSClientConfig: secure, ExpectContinueTimeout: patience}).RoundTrip(request)
		if err != nil {
			answered <- answer{0, err.Error()}
			return
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		answered <- answer{response.StatusCode, string(text)}
	}()
	select {
	case <-body.asked:
	case got := <-answered:
		t.Fatalf("the request was answered before its body was read: %+v", got)
	case <-time.After(patience):
		t.Fatal("nobody reads the body")
	}
	return func() answer {
		close(body.sent)
		select {
		case got := <-answered:
			return got
		case <-time.After(patience):
			t.Fatal("no answer")
			return answer{}
		}
	}
}

// request is one to the API server.
func (p *pair) request(t *testing.T, method, path, contentType string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, p.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	return request
}

// slow: SC-6, SC-13. Anna's request is authorized under a condition, and she sends its body only after she has lost her
// right. It does not pass as one that somebody else allowed.
func (p *pair) slow(t *testing.T) {
	t.Helper()
	release := p.held(t, "anna", p.request(t, http.MethodPost, "/api/v1/namespaces/team/configmaps", "application/json"), `{"metadata": {"name": "slow", "labels": {"size": "big"}}}`)
	p.kubectl("-n", "team", "delete", "rolebinding.authorization.proviso.dev", "small")
	p.refused("anna", sized("revoked", "small"), "cannot create")
	if got := release(); got.code != http.StatusForbidden || !strings.Contains(got.text, "the rule is gone") {
		t.Errorf("what was authorized under a condition whose rule is gone: %+v", got)
	}
	p.apply(sidecarPolicy)
	p.allowed("anna", sized("bound-again", "small"))
}

// lateBody says when it is read, and has nothing before it is told to.
type lateBody struct {
	once        sync.Once
	asked, sent chan struct{}
	text        io.Reader
}

func (b *lateBody) Read(into []byte) (int, error) {
	b.once.Do(func() { close(b.asked) })
	<-b.sent
	return b.text.Read(into)
}
