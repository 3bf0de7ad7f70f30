package cli

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-13: a line is coloured by its answer, and nothing that a client has sent reaches the terminal as a command.
func TestEventLine(t *testing.T) {
	e := &auditv1.Event{
		Stage: auditv1.StageResponseComplete, StageTimestamp: metav1.NewMicroTime(time.Now()), Verb: "create", RequestURI: "/api/v1/x", ObjectRef: &auditv1.ObjectReference{Name: "one"},
		User: authnv1.UserInfo{Username: "edgar\x1b[2J\n"}, ImpersonatedUser: &authnv1.UserInfo{Username: "hubert"},
		ResponseStatus: &metav1.Status{Code: 403, Message: "no\u202e\x07"},
	}
	plain := string(eventLine(e, false, 0))
	if strings.ContainsAny(plain, "\x1b\n\x07\u202e") || !strings.Contains(plain, "403  edgar\\u001b[2J\\n as hubert  create  /api/v1/x  one  no") {
		t.Errorf("line is %q", plain)
	}
	if coloured := string(eventLine(e, true, 0)); !strings.Contains(coloured, "\x1b[31m403\x1b[0m") || strings.Contains(coloured, "\x1b[2J") {
		t.Errorf("line is %q", coloured)
	}
	if cut := string(eventLine(e, false, 24)); utf8.RuneCountInString(cut) != 24 || !strings.HasSuffix(cut, "…") {
		t.Errorf("a line that is cut is %q", cut)
	}
	e.Stage, e.ResponseStatus = auditv1.StageResponseStarted, nil
	if line := string(eventLine(e, false, 0)); !strings.Contains(line, "---") || !strings.HasSuffix(line, "ResponseStarted") {
		t.Errorf("line is %q", line)
	}
}

// DA-13: events go out as they came, what is missing is said beside them, and a broken stream is an error.
func TestTailShows(t *testing.T) {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","requestObject":{"count":7}}` + "\n"
	for _, tc := range []struct{ stream, out, errOut, err string }{
		{event + event, event + event, "", ""},
		{`{"kind":"Dropped","count":12}` + "\n" + event, event, "12 events are missing", ""},
		{event + `{"auditID":7}` + "\n" + `{"requestObject":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}\n" + event, event + event, "an event cannot be read", ""},
		{event + `{"kind":"Ev`, event, "", "broke"},
		{"<html>\n", "", "", "broke"},
	} {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		err := (&AuditTailOptions{Output: "json", IOStreams: streams}).show(strings.NewReader(tc.stream))
		if out.String() != tc.out || !strings.Contains(errOut.String(), tc.errOut) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: printed %q and %q, error %v", tc.stream, out, errOut, err)
		}
	}
}

// DA-13, SC-10: a stock server does not know the path, and passes another one on to its sidecar. Who is refused by
// both hears the refusal of the server that has live events.
func TestTailAsksBesideAStockServer(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second, want int
		asked               string
	}{
		"ours":                          {200, 0, 200, auditv1alpha1.TailPath},
		"ours, refused":                 {403, 404, 403, auditv1alpha1.TailPath},
		"stock":                         {404, 200, 200, auditv1alpha1.TailBesidePath},
		"stock, and the path is denied": {403, 200, 200, auditv1alpha1.TailBesidePath},
		"stock, refused":                {404, 403, 403, auditv1alpha1.TailBesidePath},
		"neither":                       {404, 404, 404, auditv1alpha1.TailBesidePath},
		"another failure":               {500, 200, 500, auditv1alpha1.TailPath},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			code := tc.first
			if r.URL.Path == auditv1alpha1.TailBesidePath {
				code = tc.second
			}
			w.Header().Set("Path", r.URL.Path)
			w.WriteHeader(code)
		}))
		base, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := openTail(t.Context(), server.Client(), base, url.Values{"level": {"Metadata"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != tc.want || got.Header.Get("Path") != tc.asked {
			t.Errorf("%s: %d of %s, want %d of %s", name, got.StatusCode, got.Header.Get("Path"), tc.want, tc.asked)
		}
		server.Close()
	}
}
