package ledger

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/test/etcdtest"
)

// place is an etcd that the test can take away.
type place struct {
	client    *clientv3.Client
	transform value.Transformer
	fail      error
}

func (p *place) Client() (*clientv3.Client, error) { return p.client, p.fail }
func (p *place) Below(name string) string          { return "/registry/proviso.dev/" + name + "/" }
func (p *place) Transformer(schema.GroupResource) (value.Transformer, bool) {
	return p.transform, p.transform != nil
}

func start(t *testing.T) *place {
	t.Helper()
	client := etcdtest.Client(t)
	return &place{client: client, transform: identity.NewEncryptCheckTransformer()}
}

var now = time.Unix(1_800_000_000, 0)

func entry(user string, n int, links ...string) Entry {
	return EntryOf(&narrowedtoken.Payload{ID: fmt.Sprintf("%032x", n), Issued: now.Unix() + int64(n), Expires: now.Add(time.Hour).Unix(),
		User: narrowedtoken.User{Name: user, Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}}, links)
}

func list(t *testing.T, l *Ledger, user string, at time.Time) *Listed {
	t.Helper()
	got, err := l.List(t.Context(), user, at)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TK-6: what one server has entered every server lists, also one that started later; what cannot be entered is an
// error; and what has ended is deleted.
func TestLedger(t *testing.T) {
	p := start(t)
	first, second := New(p), New(p)
	if err := first.Enter(t.Context(), entry("mona", 1, "build agent", ""), now); err != nil {
		t.Fatal(err)
	}
	if err := second.Enter(t.Context(), entry("a/b\x00c", 2), now); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Ledger{"first": first, "second": second, "third": New(p)} {
		if got := list(t, l, "mona", now); len(got.Entries) != 1 || got.Entries[0].Links[0] != "build agent" || got.Dropped || got.Unreadable > 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if got := list(t, l, "", now); len(got.Entries) != 2 || got.Entries[1].User != "a/b\x00c" {
			t.Errorf("%s, all: %+v", name, got)
		}
		if got := list(t, l, "mon", now); len(got.Entries) != 0 {
			t.Errorf("%s, another user: %+v", name, got)
		}
	}

	unknown, away := *p, *p
	unknown.transform, away.fail = nil, context.DeadlineExceeded
	for name, bad := range map[string]*place{"not known how": &unknown, "no etcd": &away} {
		if err := New(bad).Enter(t.Context(), entry("mona", 3), now); err == nil {
			t.Errorf("%s: it is entered", name)
		}
		if _, err := New(bad).List(t.Context(), "mona", now); err == nil {
			t.Errorf("%s: it is listed", name)
		}
	}
	if _, err := p.client.Put(t.Context(), first.issued+ownerOf("mona")+"/x", "nonsense"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, first, "mona", now); got.Unreadable != 1 || len(got.Entries) != 1 {
		t.Errorf("with an entry that cannot be read: %+v", got)
	}

	later := now.Add(time.Hour)
	if got := list(t, first, "", later); len(got.Entries) != 0 {
		t.Errorf("what has ended is listed: %+v", got)
	}
	if err := first.Trim(t.Context(), later.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	left, err := p.client.Get(t.Context(), "/registry/proviso.dev/tokens/", clientv3.WithPrefix())
	if err != nil || left.Count != 2 { // with the longest life
		t.Errorf("%d keys are left: %v", left.Count, err)
	}
}

// NI-6, TK-6: what is kept is bounded for each user and in bytes, by whatever server it is written. A user who asks for
// many pushes out their own, and a list that lacks something says so.
func TestLedgerIsBounded(t *testing.T) {
	p := start(t)
	servers := []*Ledger{New(p), New(p)}
	if err := servers[0].Enter(t.Context(), entry("quiet", 1, "hers"), now); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 3000)
	var running sync.WaitGroup
	for user := range 24 {
		running.Go(func() {
			for n := range PerUser + spare + 15 {
				at := now.Add(time.Duration(n) * time.Millisecond)
				if err := servers[n%2].Enter(t.Context(), entry(fmt.Sprintf("loud-%d", user), n, long), at); err != nil {
					t.Error(err)
				}
			}
		})
		if user%8 == 7 {
			running.Wait()
		}
	}
	running.Wait()
	all := list(t, servers[0], "", now)
	size, of := 0, map[string]int{}
	for _, e := range all.Entries {
		size += len(e.Links[0])
		of[e.User]++
	}
	if size > Most+len(servers)*slack || size < Most/2 {
		t.Errorf("%d bytes are kept", size)
	}
	for user, n := range of {
		if n > PerUser+spare {
			t.Errorf("%d of %s are kept", n, user)
		}
	}
	if !all.Dropped {
		t.Error("the list does not say that some were dropped")
	}
	if got := list(t, servers[1], "quiet", now); len(got.Entries) != 1 || got.Entries[0].Links[0] != "hers" {
		t.Errorf("the token of another user was pushed out: %+v", got)
	}
	if got := list(t, servers[1], "loud-3", now).Entries; len(got) == 0 || got[len(got)-1].ID != fmt.Sprintf("%032x", PerUser+spare+14) {
		t.Errorf("the newest is not kept: %d", len(got))
	}
	if err := servers[0].Trim(t.Context(), now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, err := p.client.Get(t.Context(), "/registry/proviso.dev/tokens/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || left.Count != 1 { // the longest life
		t.Errorf("%d keys are left: %v", left.Count, err)
	}
}

// NI-6: marks are bounded, too. If many users have one, that of everybody stands for them.
func TestMarksAreBounded(t *testing.T) {
	p := start(t)
	l := New(p)
	for n := range mostMarks + 5 {
		if _, err := p.client.Put(t.Context(), l.dropped+ownerOf(fmt.Sprint(n)), fmt.Sprint(now.Unix()+60)); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, l, "7", now); !got.Dropped {
		t.Error("a user with a mark")
	}
	if got := list(t, l, "another", now); got.Dropped {
		t.Error("a user without one")
	}
	if err := l.Trim(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	left, err := p.client.Get(t.Context(), l.dropped, clientv3.WithPrefix())
	if err != nil || left.Count != 1 || !list(t, l, "7", now).Dropped {
		t.Errorf("%d marks are left: %v", left.Count, err)
	}
}

// TK-6: how long a token can live is what any server ever issued, whatever the one says that asks; what is not known is
// an error, and then no token is issued.
func TestLongest(t *testing.T) {
	p := start(t)
	longest := func(own, want time.Duration) {
		t.Helper()
		if got, err := New(p).Longest(t.Context(), own); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	enter := func(l *Ledger, life time.Duration) error {
		e := entry("mona", 1)
		e.Issued, e.Expires = now.Unix(), now.Add(life).Unix()
		return l.Enter(t.Context(), e, now)
	}
	longest(time.Hour, time.Hour)
	week, day := New(p), New(p)
	for _, l := range []*Ledger{day, week, day} {
		life := 24 * time.Hour
		if l == week {
			life *= 7
		}
		if err := enter(l, life); err != nil {
			t.Fatal(err)
		}
	}
	longest(time.Hour, 7*24*time.Hour)
	longest(30*24*time.Hour, 30*24*time.Hour)

	// A release without the key has issued them.
	if _, err := p.client.Delete(t.Context(), week.longest); err != nil {
		t.Fatal(err)
	}
	if got, err := New(p).Longest(t.Context(), time.Hour); err != nil || got < 7*24*time.Hour || got > 7*24*time.Hour+time.Minute {
		t.Errorf("by what is listed: %s, %v", got, err)
	}
	if err := enter(New(p), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := week.Trim(t.Context(), now.Add(30*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, err := New(p).Longest(t.Context(), time.Hour); err != nil || got < 7*24*time.Hour {
		t.Errorf("after they are over: %s, %v", got, err)
	}

	if _, err := p.client.Put(t.Context(), week.longest, "forever"); err != nil {
		t.Fatal(err)
	}
	if got, err := New(p).Longest(t.Context(), time.Hour); err == nil {
		t.Errorf("what cannot be read is %s", got)
	}
	if err := enter(New(p), time.Hour); err == nil {
		t.Error("a token is issued while nobody knows how long one can live")
	}
}
