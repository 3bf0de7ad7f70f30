package tokens

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

func payload(user string, n int, now time.Time) narrowedtoken.Payload {
	return narrowedtoken.Payload{ID: fmt.Sprintf("%032x", n), Issued: now.Unix() + int64(n), Expires: now.Add(time.Hour).Unix(),
		User: narrowedtoken.User{Name: user, Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}}
}

// NI-6, TK-6: what is remembered of tokens is bounded for each user and in bytes. A user who asks for many pushes out
// their own.
func TestLedgerIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var l ledger
	l.enter(payload("quiet", 1, now), []string{"hers"}, now)
	long := strings.Repeat("x", 256)
	for user := range 400 {
		for n := range perUser + 10 {
			l.enter(payload(fmt.Sprintf("loud-%d", user), n, now), []string{long, long, long, long}, now)
		}
		if got := l.of(fmt.Sprintf("loud-%d", user), now); len(got) > perUser || got[len(got)-1].payload.ID != fmt.Sprintf("%032x", perUser+9) {
			t.Fatalf("of one user %d tokens are remembered, or not the last ones", len(got))
		}
	}
	size := 0
	for _, i := range l.of("", now) {
		size += i.size()
		if i.payload.User.Groups != nil || i.payload.User.Extra != nil {
			t.Fatal("groups and extra are remembered")
		}
	}
	if size > mostHeld || size != l.held || size < mostHeld/2 {
		t.Errorf("%d bytes are remembered, %d are counted, at most are %d", size, l.held, mostHeld)
	}
	if got := l.of("quiet", now); len(got) != 1 || got[0].descriptions[0] != "hers" {
		t.Errorf("the token of another user was pushed out: %v", got)
	}
	later := now.Add(2 * time.Hour)
	if got := l.of("", later); len(got) != 0 {
		t.Errorf("%d tokens that have ended are listed", len(got))
	}
	l.enter(payload("quiet", 2, later), nil, later)
	if got := l.of("quiet", later); len(got) != 1 || got[0].payload.ID != fmt.Sprintf("%032x", 2) {
		t.Errorf("after the first has ended: %v", got)
	}
}
