package answer

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// over serves one request under a rule, over a real connection. At the end the response is settled.
func over(t *testing.T, rule Rule, handler http.HandlerFunc, settle func(*Writer)) (code int, header http.Header, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Before", "stays")
		if held := Serve(handler, w, r, rule); settle != nil {
			settle(held)
		}
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
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

func always(f Fate) func(int) Fate { return func(int) Fate { return f } }

// ways are all the ways in which a handler can answer.
var ways = map[string]func(http.ResponseWriter){
	"with a status":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted); _, _ = io.WriteString(w, "secret") },
	"without a status": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "secret") },
	"in a new header":  func(w http.ResponseWriter) { w.Header().Set("X-New", "secret"); w.WriteHeader(http.StatusOK) },
	"in a header":      func(w http.ResponseWriter) { w.Header().Set("X-Before", "secret"); w.WriteHeader(http.StatusOK) },
	"flushed": func(w http.ResponseWriter) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "secret")
	},
	"flushed by a controller": func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "secret")
	},
	"two statuses": func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusNotFound)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "secret")
	},
	"in pieces": func(w http.ResponseWriter) {
		_, _ = w.Write(nil)
		_, _ = io.WriteString(w, "sec")
		_, _ = io.WriteString(w, "ret")
	},
	"taken over": func(w http.ResponseWriter) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		takenOver(rw)
	},
	"silence": func(http.ResponseWriter) {},
}

func takenOver(rw *bufio.ReadWriter) {
	_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
	_ = rw.Flush()
}

// NI-3: nothing of a response that is dropped or replaced leaves, however it is written; one that passes or is released
// is what the handler wrote.
func TestNothingLeavesThatIsHeld(t *testing.T) {
	replace := func(a *Writer) { http.Error(a.Forget(), "replaced", http.StatusForbidden) }
	for name, write := range ways {
		handler := func(w http.ResponseWriter, _ *http.Request) { write(w) }
		for _, fate := range []Fate{Drop, Hold} {
			code, header, body := over(t, Rule{First: always(fate)}, handler, replace)
			if code != http.StatusForbidden || body != "replaced\n" || header.Get("X-Before") != "stays" || header.Get("X-New") != "" {
				t.Errorf("%s, %v: %d %v %q", name, fate, code, header, body)
			}
		}
		passed, _, whole := over(t, Rule{First: always(Pass)}, handler, nil)
		if name == "taken over" {
			if whole != "secret" {
				t.Errorf("%s: a response that passes: %d %q", name, passed, whole)
			}
			continue
		}
		held, _, body := over(t, Rule{First: always(Hold), Limit: 6}, handler, func(a *Writer) { a.Release(a.Body()) })
		if held != passed || body != whole {
			t.Errorf("%s: passed as %d %q, released as %d %q", name, passed, whole, held, body)
		}
	}
}

// NI-3: what is too long to be held is dropped, and stays dropped.
func TestHeldIsBounded(t *testing.T) {
	for size, want := range map[int]Fate{10: Hold, 11: Drop, 25: Drop} {
		over(t, Rule{First: always(Hold), Limit: 10}, func(w http.ResponseWriter, _ *http.Request) {
			for range size {
				_, _ = io.WriteString(w, "x")
			}
		}, func(a *Writer) {
			if a.Fate() != want || want == Drop && len(a.Body()) > 0 || want == Hold && len(a.Body()) != size {
				t.Errorf("%d bytes: %v, %d held", size, a.Fate(), len(a.Body()))
			}
		})
	}
}

// The rule is asked once, with the status that the client would get.
func TestRuleIsAskedOnce(t *testing.T) {
	for name, want := range map[string]int{"with a status": http.StatusAccepted, "silence": http.StatusOK, "two statuses": http.StatusNotFound, "taken over": http.StatusSwitchingProtocols} {
		var asked []int
		over(t, Rule{First: func(code int) Fate { asked = append(asked, code); return Pass }}, func(w http.ResponseWriter, _ *http.Request) { ways[name](w) }, func(a *Writer) {
			if a.Code() != want {
				t.Errorf("%s: code %d", name, a.Code())
			}
		})
		if len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: asked with %v", name, asked)
		}
	}
}

func TestLinesAreRewritten(t *testing.T) {
	rule := Rule{First: always(ByLine), Line: func(line []byte) []byte { return []byte(strings.ToUpper(string(line))) }}
	_, _, body := over(t, rule, func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"on", "e\ntw", "o\nhalf"} {
			_, _ = io.WriteString(w, part)
		}
	}, nil)
	if body != "ONE\nTWO\nhalf" {
		t.Errorf("%q", body)
	}
	if (Fate)(0) != Drop {
		t.Error("the zero value lets something out")
	}
}

// broken is a connection that is gone, and counts flushes.
type broken struct {
	*httptest.ResponseRecorder
	flushed int
}

func (b *broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (b *broken) Flush()                    { b.flushed++ }

// What passes is flushed and fails as the connection does; what is held is neither.
func TestConnectionsThatBreak(t *testing.T) {
	same := func(line []byte) []byte { return line }
	for fate, passes := range map[Fate]bool{Pass: true, ByLine: true, Hold: false, Drop: false} {
		w := &broken{ResponseRecorder: httptest.NewRecorder()}
		var err error
		Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, err = io.WriteString(w, "line\n")
		}), w, httptest.NewRequest(http.MethodGet, "/", nil), Rule{First: always(fate), Line: same})
		if (err != nil) != passes || (w.flushed > 0) != passes {
			t.Errorf("%v: %v, %d flushes", fate, err, w.flushed)
		}
	}
}
