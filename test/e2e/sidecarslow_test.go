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

// slow: SC-6, SC-13. Anna's request is authorized under a condition, and she sends its body only after she has lost her
// right. It does not pass as one that somebody else allowed.
func (p *pair) slow(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	// The body is asked for when the request has been authorized.
	body := &lateBody{asked: make(chan struct{}), sent: make(chan struct{}), text: strings.NewReader(`{"metadata": {"name": "slow", "labels": {"size": "big"}}}`)}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/api/v1/namespaces/team/configmaps", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Impersonate-User", "anna")
	request.Header.Set("Expect", "100-continue")
	type result struct {
		code int
		text string
	}
	answered := make(chan result, 1)
	go func() {
		response, err := (&http.Transport{TLSClientConfig: secure, ExpectContinueTimeout: patience}).RoundTrip(request)
		if err != nil {
			answered <- result{0, err.Error()}
			return
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		answered <- result{response.StatusCode, string(text)}
	}()
	select {
	case <-body.asked:
	case got := <-answered:
		t.Fatalf("the request was answered before its body was read: %+v", got)
	case <-time.After(patience):
		t.Fatal("nobody reads the body")
	}
	p.kubectl("-n", "team", "delete", "rolebinding.authorization.proviso.dev", "small")
	p.refused("anna", sized("revoked", "small"), "cannot create")
	close(body.sent)
	select {
	case got := <-answered:
		if got.code != http.StatusForbidden || !strings.Contains(got.text, "the rule is gone") {
			t.Errorf("what was authorized under a condition whose rule is gone: %+v", got)
		}
	case <-time.After(patience):
		t.Fatal("no answer")
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
