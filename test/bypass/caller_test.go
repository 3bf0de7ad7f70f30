package bypass

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// request is one attempt, with what is expected to be on record of it.
type request struct {
	endpoint endpoint
	// way names how it is made; verb is that of authorization.
	way, verb string
	method    string
	path      string
	query     string
	header    map[string]string
	body      []byte
	// sloppy requests may be refused for another reason than who makes them: what they carry is broken, or nothing is
	// there.
	sloppy bool
}

func (r request) String() string { return fmt.Sprintf("%s: %s by %s", r.endpoint, r.verb, r.way) }

// outcome is what came of an attempt.
type outcome struct {
	request
	user, as string
	by       *caller
	auditID  string
	code     int
	answer   []byte
}

func (o outcome) String() string {
	who := o.user
	if o.as != "" {
		who += " as " + o.as
	}
	return fmt.Sprintf("%s: %s (%s %s?%s): %d %.500s", who, o.request, o.method, o.path, o.query, o.code, o.answer)
}

func (o outcome) succeeded() bool { return o.code < 400 }

// ledger has every request of the hunt, for the audit.
type ledger struct {
	mu   sync.Mutex
	made []outcome
}

func (l *ledger) add(o outcome) {
	o.body, o.answer = nil, nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, o)
}

// caller makes requests as one user.
type caller struct {
	user, as string
	host     string
	client   *http.Client
	// upgrading makes connections that can be taken over, as web sockets need them.
	upgrading *http.Client
	ledger    *ledger
}

var auditIDs atomic.Int64

func newCaller(t testing.TB, config *rest.Config, user string, l *ledger) *caller {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	first := rest.CopyConfig(config)
	first.NextProtos = []string{"http/1.1"}
	tls, err := rest.TLSConfigFor(first)
	if err != nil {
		t.Fatal(err)
	}
	upgrading := &http.Client{Transport: &http.Transport{TLSClientConfig: tls}}
	return &caller{user: user, host: config.Host, client: client, upgrading: upgrading, ledger: l}
}

// impersonating is the same caller in somebody else's name.
func (c *caller) impersonating(user string) *caller {
	other := *c
	other.as = user
	return &other
}

// do makes a request. An answer that does not come is code 0.
func (c *caller) do(ctx context.Context, r request) outcome {
	out := outcome{request: r, user: c.user, as: c.as, by: c, auditID: fmt.Sprintf("hunt-%d", auditIDs.Add(1))}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	url := c.host + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	req, err := http.NewRequestWithContext(ctx, r.method, url, bytes.NewReader(r.body))
	if err != nil {
		out.answer = []byte(err.Error())
		return out
	}
	req.Header.Set("Audit-ID", out.auditID)
	req.Header.Set("Accept", "application/json")
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if c.as != "" {
		req.Header.Set("Impersonate-User", c.as)
	}
	client := c.client
	if req.Header.Get("Upgrade") != "" {
		client = c.upgrading
	}
	resp, err := client.Do(req)
	if err != nil {
		out.answer = []byte(err.Error())
		c.ledger.add(out)
		return out
	}
	defer resp.Body.Close()
	out.code = resp.StatusCode
	out.answer, err = io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		out.answer = append(out.answer, err.Error()...)
	}
	c.ledger.add(out)
	return out
}
