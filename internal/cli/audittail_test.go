package cli

import (
	"strings"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// DA-13: a line is coloured by its answer, and nothing that a client has sent reaches the terminal as a command.
func TestEventLine(t *testing.T) {
	e := &auditv1.Event{
		Stage: auditv1.StageResponseComplete, StageTimestamp: metav1.NewMicroTime(time.Now()), Verb: "create", RequestURI: "/api/v1/x", ObjectRef: &auditv1.ObjectReference{Name: "one"},
		User: authnv1.UserInfo{Username: "edgar\x1b[2J\n"}, ImpersonatedUser: &authnv1.UserInfo{Username: "hubert"},
		ResponseStatus: &metav1.Status{Code: 403, Message: "no\u202e\x07"},
	}
	plain := eventLine(e, false)
	if strings.ContainsAny(plain, "\x1b\n\x07\u202e") || !strings.Contains(plain, "403  edgar\uFFFD[2J\uFFFD as hubert  create  /api/v1/x  one  no") {
		t.Errorf("line is %q", plain)
	}
	if coloured := eventLine(e, true); !strings.Contains(coloured, "\x1b[31m403\x1b[0m") || strings.Contains(coloured, "\x1b[2J") {
		t.Errorf("line is %q", coloured)
	}
	e.Stage, e.ResponseStatus = auditv1.StageResponseStarted, nil
	if line := eventLine(e, false); !strings.Contains(line, "---") || !strings.HasSuffix(line, "ResponseStarted") {
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
