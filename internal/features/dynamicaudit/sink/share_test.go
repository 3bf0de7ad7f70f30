package sink

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-19, NI-6: while a sink is down, refused requests of one caller with huge URIs push out no event of another one,
// neither one that waits nor one that comes later, and not after a restart either. What they lose is counted.
func TestOneCallerPushesOutNobody(t *testing.T) {
	a := newHTTPSink(t)
	a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true })
	cfg := Config{AllowInsecure: true, SpoolBytes: 256 << 10, Dir: quickDir(t), FlushTimeout: time.Millisecond}
	r := startRouter(t, cfg)
	sinks := []*v1alpha1.AuditSink{a.object("a", "Metadata")}
	r.Update(sinks, nil)
	send := func(id, user string, uri int) {
		t.Helper()
		ev := testEvent(id)
		ev.User, ev.RequestURI = authnv1.UserInfo{Username: user}, "/"+strings.Repeat("x", uri)
		ev.ImpersonatedUser = &authnv1.UserInfo{Username: "somebody " + id} // counts as the one who sends it
		if !r.ProcessEvents(ev) {
			t.Fatal("a request was refused")
		}
	}
	flood := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			send(fmt.Sprint("flood-", i), "system:anonymous", 1<<20)
		}
	}
	send("waits", "alice", 10)
	flood(0, 60)
	send("later", "bob", 10)
	flood(60, 120)
	r.Shutdown()
	r = startRouter(t, cfg)
	r.Update(sinks, nil)
	flood(120, 180)
	send("last", "alice", 10)
	s := status(t, r, "a")
	if s.Drops.Share == 0 || s.Drops.Full != 0 || s.Dropped+s.Spooled != 183 || s.SpoolBytes > 200<<10 {
		t.Errorf("%+v", s)
	}
	a.misbehave(nil)
	eventually(t, "all is delivered", func() bool { return status(t, r, "a").Spooled == 0 })
	got := ids(a.await(t, int(status(t, r, "a").Delivered)))
	for _, want := range []string{"waits", "later", "last", "flood-0"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is lost", want)
		}
	}
	if s := status(t, r, "a"); s.Delivered+s.Dropped != 183 {
		t.Errorf("%+v", s)
	}
}

// DA-19: callers who hold less get in where those who hold more do not, and what is kept of a caller does not depend on
// how many there are.
func TestSharesOfTheSpool(t *testing.T) {
	dir := quickDir(t)
	small := func(c *spoolConfig) { c.maxBytes, c.segmentBytes = 64<<10, 4<<10 }
	s := testSpool(t, dir, small)
	keep := func(user string) bool {
		e := []byte(fmt.Sprintf(`{"requestURI":"/,\"user\":{\"username\":\"other\"","verb":"get","user":{"username":%q,"uid":"u"},"pad":%q}`, user, strings.Repeat("x", 900)))
		_, err := s.append(e, checksum(e), time.Now())
		return err == nil
	}
	fill := func(user string) (n int) {
		for n < 100 && keep(user) {
			n++
		}
		return n
	}
	keep("first") // or the flood would make room for itself
	eve := fill("eve")
	bob := fill("bob")
	if eve < 28 || eve > 33 || bob < 12 || bob > 18 || !keep("ann") || keep("eve") || s.cursor.Full != 0 || s.cursor.Share != 3 {
		t.Errorf("eve has %d, bob %d; %+v", eve, bob, s.cursor.counts)
	}
	held := s.shares.held[s.shares.of([]byte(`,"user":{"username":"eve","uid":"u"}`))]
	if held < int64(eve)*900 || len(s.shares.held) != 4 {
		t.Errorf("eve holds %d of %v", held, s.shares.held)
	}
	s = testSpool(t, dir, small) // as after kill -9
	if len(s.shares.held) != 4 || keep("eve") || !keep("ann") {
		t.Errorf("after a restart: %v", s.shares.held)
	}
	if take(t, s); !keep("eve") || len(s.shares.held) > 4 || s.shares.held[s.shares.of([]byte(`,"user":{"username":"eve","uid":"u"}`))] >= held {
		t.Errorf("after all is delivered: %v", s.shares.held)
	}
	// One user alone keeps the newest events.
	s = testSpool(t, quickDir(t), small)
	if n := fill("eve"); n != 100 || s.cursor.Full == 0 {
		t.Errorf("%d of 100 are kept, %+v", n, s.cursor.counts)
	}
	for i := range 2 * maxCallers {
		s.shares.add(s.segments[0], s.shares.of(fmt.Appendf(nil, `,"user":{"username":"%d"}`, i)), 1)
	}
	if len(s.shares.held) > maxCallers+1 {
		t.Errorf("%d callers are told apart", len(s.shares.held))
	}
}

// The user is the one of the encoder, whatever else an event says.
func TestUserOfAnEvent(t *testing.T) {
	s := newShares()
	of := func(user, uri string) callerID {
		ev := testEvent("id")
		ev.User.Username, ev.RequestURI, ev.Level = user, uri, auditinternal.LevelMetadata
		var e encoder
		e.reset(ev, appendIdentity(nil))
		return s.of(e.at(1, 1<<20).text)
	}
	names := []string{"", "eve", "eve2", `eve"`, `eve\`, "eve\n", "ёve"}
	seen := map[callerID]string{}
	for _, name := range names {
		id := of(name, "/")
		if other, taken := seen[id]; taken || id == furtherCallers {
			t.Errorf("%q counts as %q", name, other)
		}
		seen[id] = name
		if of(name, `/,"user":{"username":"ann","uid":"`) != id || of(name, `/,`) != id {
			t.Errorf("%q can say that it is somebody else", name)
		}
	}
}
