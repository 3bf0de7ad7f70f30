package explorer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// house is an explorer with a command that only notes what it is asked.
type house struct {
	*httptest.Server
	t     *testing.T
	token string
	now   time.Time
	asked [][]string
	in    []string
	// out and code are what the command answers.
	out  string
	code int
}

func newHouse(t *testing.T, change func(*Config)) *house {
	t.Helper()
	h := &house{t: t, now: time.Unix(1_800_000_000, 0), out: `{"status":{}}`}
	cfg := Config{
		Rest: &rest.Config{Host: "https://127.0.0.1:1"}, Identity: []string{"--context=edgar"}, Namespace: "hammer", Now: func() time.Time { return h.now },
		Run: func(_ context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
			text, _ := io.ReadAll(in)
			h.asked, h.in = append(h.asked, args), append(h.in, string(text))
			_, _ = io.WriteString(out, h.out)
			if h.code != 0 {
				_, _ = io.WriteString(errOut, "proviso: no such luck\n")
			}
			return h.code
		},
	}
	if change != nil {
		change(&cfg)
	}
	handler, token, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.token, h.Server = token, httptest.NewServer(handler)
	t.Cleanup(h.Close)
	return h
}

// session is what a browser has after it has opened the address.
type session struct {
	cookie *http.Cookie
	key    string
}

func (h *house) do(r *http.Request) *http.Response {
	h.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (h *house) open(token string) (*session, *http.Response) {
	h.t.Helper()
	r, _ := http.NewRequest(http.MethodGet, h.URL+"/?token="+token, nil)
	resp := h.do(r)
	for _, c := range resp.Cookies() {
		_, key, _ := strings.Cut(resp.Header.Get("Location"), "#key=")
		return &session{c, key}, resp
	}
	return nil, resp
}

// ask asks a question as the page does; change makes it another request.
func (h *house) ask(s *session, name, question string, change func(*http.Request)) *http.Response {
	h.t.Helper()
	r, _ := http.NewRequest(http.MethodPost, h.URL+"/api/"+name, strings.NewReader(question))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", h.URL)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if s != nil {
		r.AddCookie(s.cookie)
		r.Header.Set(keyHeader, s.key)
	}
	if change != nil {
		change(r)
	}
	return h.do(r)
}

const question = `{"verb":"get","resource":"pods","namespace":"hammer"}`

// EX-1: the token works once, becomes a cookie that no script and no other site gets, and is not in any address
// afterwards.
func TestTokenBecomesASession(t *testing.T) {
	h := newHouse(t, nil)
	s, resp := h.open(h.token)
	if s == nil || resp.StatusCode != http.StatusSeeOther || s.key == "" {
		t.Fatalf("no session: %s %s", resp.Status, resp.Header.Get("Location"))
	}
	if c := s.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Value == h.token || strings.Contains(resp.Header.Get("Location"), h.token) {
		t.Errorf("cookie %+v, location %s", c, resp.Header.Get("Location"))
	}
	if resp := h.ask(s, "who-can", question, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("the session is refused: %s", resp.Status)
	}
	if again, resp := h.open(h.token); again != nil || !strings.Contains(resp.Header.Get("Location"), "used") {
		t.Errorf("the token works twice: %s", resp.Status)
	}
	if resp := h.ask(s, "who-can", question, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a used token ends the session: %s", resp.Status)
	}
	if wrong, _ := newHouse(t, nil).open("wrong"); wrong != nil {
		t.Error("a wrong token opens it")
	}
	h.now = h.now.Add(sessionLife)
	if resp := h.ask(s, "who-can", question, nil); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a session has no end: %s", resp.Status)
	}
}

// EX-1: who is not the page gets nothing: a foreign origin, a name that was rebound to this machine, no cookie, a
// cookie without the key, a simple request of a form. Nothing of it reaches a command.
func TestOthersCannotUseTheSession(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{name: "the page", want: 200},
		{name: "at localhost, through a forwarded port", want: 200, change: func(r *http.Request) {
			r.Host = "localhost:9999"
			r.Header.Set("Origin", "http://localhost:9999")
		}},
		{name: "foreign origin", want: 403, change: func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }},
		{name: "origin of another port", want: 403, change: func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }},
		{name: "null origin of a sandbox", want: 403, change: func(r *http.Request) { r.Header.Set("Origin", "null") }},
		{name: "no origin", want: 403, change: func(r *http.Request) { r.Header.Del("Origin") }},
		{name: "same site, other origin", want: 403, change: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		{name: "rebound host", want: 421, change: func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("Origin", "http://evil.example")
		}},
		{name: "rebound host that looks local", want: 421, change: func(r *http.Request) {
			r.Host = "127.0.0.1.evil.example"
			r.Header.Set("Origin", "http://127.0.0.1.evil.example")
		}},
		{name: "missing cookie", want: 401, change: func(r *http.Request) { r.Header.Del("Cookie") }},
		{name: "other cookie", want: 401, change: func(r *http.Request) { r.Header.Set("Cookie", strings.SplitN(r.Header.Get("Cookie"), "=", 2)[0]+"=x") }},
		{name: "cookie without the key", want: 401, change: func(r *http.Request) { r.Header.Del(keyHeader) }},
		{name: "simple request of a form", want: 415, change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		{name: "by GET", want: 404, change: func(r *http.Request) { r.Method = http.MethodGet }},
		{name: "preflight", want: 405, change: func(r *http.Request) { r.Method = http.MethodOptions }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t, nil)
			s, _ := h.open(h.token)
			resp := h.ask(s, "who-can", question, tc.change)
			if resp.StatusCode != tc.want {
				t.Errorf("%s, want %d", resp.Status, tc.want)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("others may read the answer")
			}
			if asked := len(h.asked) > 0; asked != (tc.want == 200) {
				t.Errorf("a command was run: %v", h.asked)
			}
		})
	}
	h := newHouse(t, nil)
	if resp := h.ask(nil, "who-can", question, nil); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("before anybody has opened it: %s", resp.Status)
	}
}

// EX-1: the page loads nothing from elsewhere, runs no script of its own text, and cannot be put into a frame. It is
// at the path of every screen, and has nothing secret in it.
func TestPageIsStrict(t *testing.T) {
	h := newHouse(t, nil)
	for _, path := range append([]string{"", "assets/app.js"}, Screens...) {
		r, _ := http.NewRequest(http.MethodGet, h.URL+"/"+path, nil)
		resp := h.do(r)
		body, _ := io.ReadAll(resp.Body)
		csp := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != 200 || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %s, %s", path, resp.Status, csp)
		}
		if strings.Contains(string(body), h.token) {
			t.Errorf("%s holds the token", path)
		}
	}
	for _, path := range []string{"/nothing", "/assets/nothing.js", "/assets/../page.go", "/assets/vendor/README.md"} {
		r, _ := http.NewRequest(http.MethodGet, h.URL+path, nil)
		if resp := h.do(r); resp.StatusCode == 200 {
			t.Errorf("%s is served", path)
		}
	}
	r, _ := http.NewRequest(http.MethodGet, h.URL+"/assets/app.js", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp := h.do(r); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another page loads the script: %s", resp.Status)
	}
}

// EX-1: nothing is applied unless the explorer was started for it, and then only what a plan was shown of, once.
func TestApplyNeedsItsPlan(t *testing.T) {
	yaml := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	body, _ := json.Marshal(planQuestion{YAML: yaml})
	other, _ := json.Marshal(planQuestion{YAML: yaml + "data: {a: b}\n"})
	h := newHouse(t, nil)
	s, _ := h.open(h.token)
	h.ask(s, "plan", string(body), nil)
	if resp := h.ask(s, "apply", string(body), nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("without --allow-apply: %s", resp.Status)
	}
	h = newHouse(t, func(c *Config) { c.AllowApply = true })
	s, _ = h.open(h.token)
	if resp := h.ask(s, "apply", string(body), nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("without a plan: %s", resp.Status)
	}
	h.ask(s, "plan", string(body), nil)
	if resp := h.ask(s, "apply", string(other), nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("something else than was planned: %s", resp.Status)
	}
	// The server does not exist: it is asked, which is what counts here.
	if resp := h.ask(s, "apply", string(body), nil); resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusForbidden {
		t.Errorf("what was planned: %s", resp.Status)
	}
	if resp := h.ask(s, "apply", string(body), nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("twice: %s", resp.Status)
	}
	h.code = 3
	h.ask(s, "plan", string(other), nil)
	if resp := h.ask(s, "apply", string(other), nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("after a plan that failed: %s", resp.Status)
	}
}
