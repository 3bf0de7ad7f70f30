package sidecar

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

type collected struct {
	ids  []string
	full bool
}

func (c *collected) ProcessEvents(events ...*auditinternal.Event) bool {
	if c.full {
		return false
	}
	for _, e := range events {
		c.ids = append(c.ids, string(e.AuditID))
	}
	return true
}

func line(id int, size int) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%04d","stage":"ResponseComplete","requestURI":"/%s","verb":"get"}`+"\n", id, strings.Repeat("x", size))
}

// SC-10: every event reaches the sinks, over restarts, rotation, half lines and events of megabytes; one that is not
// taken is tried again.
func TestLogTailLosesNothing(t *testing.T) {
	dir := t.TempDir()
	log, at := filepath.Join(dir, "audit.log"), filepath.Join(dir, "position")
	appendTo := func(text string) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	got := &collected{}
	begin := func() *logTail {
		tail, err := newLogTail(log, at, got)
		if err != nil {
			t.Fatal(err)
		}
		return tail
	}
	read := func(tail *logTail, want ...string) {
		t.Helper()
		if err := tail.catchUp(t.Context()); err != nil && !got.full {
			t.Fatal(err)
		}
		if !slices.Equal(got.ids, want) {
			t.Fatalf("got %v, want %v", got.ids, want)
		}
	}
	tail := begin()
	read(tail)
	appendTo(line(1, 0) + line(2, 3<<20) + line(3, 0)[:40])
	read(tail, "0001", "0002")
	appendTo(line(3, 0)[40:])
	read(tail, "0001", "0002", "0003")
	tail = begin() // as after kill -9
	read(tail, "0001", "0002", "0003")
	got.full = true
	appendTo(line(4, 0))
	read(tail, "0001", "0002", "0003")
	got.full = false
	if err := os.Rename(log, filepath.Join(dir, "audit-2026-01-01T00-00-00.000.log")); err != nil {
		t.Fatal(err)
	}
	appendTo("no event\n" + line(5, 0))
	tail = begin()
	read(tail, "0001", "0002", "0003", "0004", "0005")
	if err := os.Rename(log, filepath.Join(dir, "audit-2026-01-02T00-00-00.000.log")); err != nil {
		t.Fatal(err)
	}
	appendTo(line(6, 0))
	tail = begin()
	read(tail, "0001", "0002", "0003", "0004", "0005", "0006")
	read(tail, "0001", "0002", "0003", "0004", "0005", "0006") // nothing is new
	if err := os.Rename(log, filepath.Join(dir, "audit-2026-01-03T00-00-00.000.log")); err != nil {
		t.Fatal(err)
	}
	appendTo(line(8, 0)) // as long as the one before
	read(tail, "0001", "0002", "0003", "0004", "0005", "0006", "0008")
	if err := os.Truncate(log, 0); err != nil {
		t.Fatal(err)
	}
	appendTo(line(7, 0))
	if err := begin().catchUp(t.Context()); err != nil || !slices.Contains(got.ids, "0007") { // others may come twice
		t.Fatalf("got %v, %v", got.ids, err)
	}
}

// unheard has no sinks until somebody makes one.
type unheard struct {
	*collected
	yet bool
}

func (u *unheard) Unheard() bool { return u.yet }

// Without sinks the log is passed by, and what is written after the first one came reaches it.
func TestLogTailWithoutSinks(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	if err := os.WriteFile(log, []byte(line(1, 0)+line(2, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := &unheard{collected: &collected{}, yet: true}
	tail, err := newLogTail(log, filepath.Join(dir, "position"), got)
	if err != nil {
		t.Fatal(err)
	}
	if err := tail.catchUp(t.Context()); err != nil || len(got.ids) > 0 {
		t.Fatalf("got %v, %v", got.ids, err)
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	offset := func() int64 {
		kept, err := newLogTail(log, filepath.Join(dir, "position"), got)
		if err != nil {
			t.Fatal(err)
		}
		return kept.at.Files[0].Offset
	}
	first := offset()
	tail.kept = time.Now().Add(time.Hour) // however slow this test is
	for id, yet := range []bool{true, true, false} {
		got.yet = yet
		if _, err := f.WriteString(line(3+id, 0)); err != nil {
			t.Fatal(err)
		}
		if err := tail.catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Nothing is written for events that nobody wants, and the first one that somebody wants is not read again.
		if now := offset(); yet && now != first || !yet && now != tail.at.Files[0].Offset {
			t.Fatalf("after %d the position is %d, was %d, has read to %d", 3+id, now, first, tail.at.Files[0].Offset)
		}
	}
	if !slices.Equal(got.ids, []string{"0005"}) {
		t.Fatalf("got %v", got.ids)
	}
}
