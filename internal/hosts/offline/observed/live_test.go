package observed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/client-go/rest"
)

// TR-10: --live reads what the server shows until the time is over: whole events, and no error at the end. What the
// server refuses is an error that says so.
func TestLiveLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/proviso/audit/tail" || r.URL.Query().Get("level") != "Metadata" {
			t.Errorf("asked for %s", r.URL)
		}
		if r.Header.Get("Authorization") != "Bearer good" {
			http.Error(w, "forbidden: create on auditsinks", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, "{\"a\":1}\n{\"b\":\""+strings.Repeat("x", 1<<18)+"\"}\n{\"cut")
	}))
	defer server.Close()
	log, err := Live(t.Context(), &rest.Config{Host: server.URL, BearerToken: "good"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(log)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if err != nil || len(lines) != 2 || lines[0] != `{"a":1}` || len(lines[1]) != 1<<18+8 {
		t.Errorf("%v: %d lines", err, len(lines))
	}
	if _, err := Live(t.Context(), &rest.Config{Host: server.URL}, time.Minute); err == nil || !strings.Contains(err.Error(), "create on auditsinks") {
		t.Errorf("%v", err)
	}
}

// TR-10: that the time is over is no error; anything else is.
func TestLiveLogEnds(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, tc := range []struct {
		ctx     context.Context
		wantErr bool
	}{{over, false}, {t.Context(), true}} {
		var out strings.Builder
		err := wholeLines(tc.ctx, io.MultiReader(strings.NewReader("{}\n{"), iotest.ErrReader(errors.New("gone"))), &out)
		if (err != nil) != tc.wantErr || out.String() != "{}\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	}
}
