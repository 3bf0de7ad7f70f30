package kept

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

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

func startEtcd(t *testing.T) *place {
	t.Helper()
	client := etcdtest.Client(t)
	return &place{client: client, transform: identity.NewEncryptCheckTransformer()}
}

func set(text string) func(context.Context, *Record) error {
	return func(_ context.Context, r *Record) error {
		r.Last.Text = text
		return nil
	}
}

func awaited(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// FP-18: what one replica keeps all know, also one that starts later; what is empty is gone; a change is made against
// what is stored, by any writer.
func TestKeeper(t *testing.T) {
	p := startEtcd(t)
	first, second := New(p), New(p)
	if first.HasSynced() {
		t.Error("synced before anything was read")
	}
	for i := range 45 { // more than a page
		if err := first.Change(t.Context(), types.UID(fmt.Sprint("other", i)), set("x")); err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan struct{}, 1000)
	second.OnChange(func() { told <- struct{}{} })
	go second.Follow(t.Context())
	awaited(t, "the second to sync", second.HasSynced)
	if len(second.UIDs()) != 45 {
		t.Errorf("read %d records", len(second.UIDs()))
	}
	text := func(k *Keeper, uid types.UID) string {
		r, _ := k.Known(uid)
		return r.Last.Text
	}
	if err := first.Change(t.Context(), "a", set("one")); err != nil || text(first, "a") != "one" {
		t.Fatal(err)
	}
	awaited(t, "the second to know", func() bool { return text(second, "a") == "one" })
	<-told
	// Another server changes it in the middle.
	tries := 0
	err := second.Change(t.Context(), "a", func(ctx context.Context, r *Record) error {
		if tries++; tries == 1 {
			if err := first.Change(ctx, "a", set("two")); err != nil {
				return err
			}
		}
		r.Last.Text += "+"
		return nil
	})
	if err != nil || tries != 2 || text(second, "a") != "two+" {
		t.Errorf("%v after %d tries: %q", err, tries, text(second, "a"))
	}
	refusal := errors.New("no")
	if err := first.Change(t.Context(), "a", func(_ context.Context, r *Record) error { r.Last.Text = "three"; return refusal }); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if r, err := first.Read(t.Context(), "a"); err != nil || r.Last.Text != "two+" {
		t.Errorf("a change that failed is stored: %v %v", r, err)
	}
	if err := first.Change(t.Context(), "a", set("")); err != nil {
		t.Fatal(err)
	}
	awaited(t, "it to be gone", func() bool { _, known := second.Known("a"); return !known && len(second.UIDs()) == 45 })
	// What is gone takes no memory, and does not come back by an answer that is late.
	awaited(t, "it to be forgotten", func() bool { second.mu.Lock(); defer second.mu.Unlock(); return len(second.records) == 45 })
	if second.take("a", held{Record{Last: Declared{Text: "two"}}, second.followed - 1}); text(second, "a") != "" {
		t.Error("an older state came back")
	}

	if err := first.Change(t.Context(), "a", set(strings.Repeat("x", maxRecord))); !errors.Is(err, ErrTooMany) {
		t.Errorf("a record that is too large: %v", err)
	}
	if _, err := p.client.Put(t.Context(), first.prefix+"broken", "{"); err != nil {
		t.Fatal(err)
	}
	if err := first.Change(t.Context(), "broken", set("x")); err == nil {
		t.Error("a record that cannot be read was written over")
	}
	third := New(p)
	if _, err := third.list(t.Context(), p.client, p.transform); err == nil || third.HasSynced() {
		t.Error("synced with a record that cannot be read")
	}
	p.fail = errors.New("no etcd")
	if err := first.Change(t.Context(), "a", set("x")); !errors.Is(err, p.fail) {
		t.Error(err)
	}
}

// FP-18: writes on their way make room when they can no longer be stored.
func TestWritesOnTheirWay(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := Record{Last: Declared{Text: "a"}}
	r.Enter(Next{Declared: Declared{Text: "b"}, Base: "1"}, now)
	r.Enter(Next{Declared: Declared{Text: "b"}, Base: "1"}, now)
	r.Enter(Next{Declared: Declared{Text: "c"}, Base: "1"}, now.Add(time.Minute))
	if len(r.Next) != 2 || len(r.Of("b")) != 1 || len(r.Of("a")) != 1 || len(r.Of("z")) != 0 || len(r.All()) != 3 {
		t.Errorf("%+v", r)
	}
	late := r
	late.Enter(Next{Declared: Declared{Text: "d"}, Base: "1"}, now.Add(patience+time.Second))
	if len(late.Next) != 2 || len(late.Of("b")) != 0 {
		t.Errorf("%+v", late)
	}
	stored := r
	stored.Settle(Declared{Text: "b"}, "2", now)
	if stored.Last.Text != "b" || len(stored.Next) != 0 {
		t.Errorf("%+v", stored)
	}
	waiting := r
	waiting.Settle(Declared{Text: "a"}, "1", now.Add(time.Minute))
	if len(waiting.Next) != 2 {
		t.Errorf("what may still be stored was dropped: %+v", waiting)
	}
	r.Enter(Next{Declared: Declared{Text: "e"}}, now)
	if r.Expire(now); len(r.Next) != 1 || r.IsEmpty() {
		t.Errorf("%+v", r)
	}
	if r.Expire(now.Add(patience + time.Second)); !r.IsEmpty() {
		t.Errorf("%+v", r)
	}
}

// NI-6: a caller whose definitions do not come to be is refused more of them, on every replica, also while they are on
// their way. Nobody else is, until all of them together have very many.
func TestCreationsAreBoundedForEachCaller(t *testing.T) {
	p := startEtcd(t)
	k, other := New(p), New(p)
	made := 0
	enter := func(_ context.Context, r *Record) error {
		r.Enter(Next{Declared: Declared{Text: "x"}}, time.Now())
		return nil
	}
	create := func(k *Keeper, caller string, change func(context.Context, *Record) error) error {
		made++
		return k.Create(t.Context(), types.UID(fmt.Sprint(made)), caller, change)
	}
	refusal := errors.New("no")
	for range maxCreations + 1 { // what is not entered does not count
		if err := create(k, "mallory", func(context.Context, *Record) error { return refusal }); !errors.Is(err, refusal) {
			t.Fatal(err)
		}
	}
	for i := range maxCreations - 1 {
		if err := create(k, "mallory", enter); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	err := create(k, "mallory", func(ctx context.Context, r *Record) error {
		if err := create(k, "mallory", enter); !errors.Is(err, ErrTooMany) {
			t.Errorf("beside one on its way: %v", err)
		}
		return enter(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	last := types.UID(fmt.Sprint(made - 1))
	if rec, _ := k.Known(last); rec.By == "" || strings.Contains(rec.By, "mallory") {
		t.Errorf("who made it is %q", rec.By)
	}
	if err := create(k, "mallory", enter); !errors.Is(err, ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	go other.Follow(t.Context())
	awaited(t, "the other replica to sync", other.HasSynced)
	if err := create(other, "mallory", enter); !errors.Is(err, ErrTooMany) {
		t.Errorf("on another replica: %v", err)
	}
	if err := create(other, "alice", enter); err != nil {
		t.Errorf("another caller: %v", err)
	}

	// A definition that was found makes room.
	if err := k.Change(t.Context(), last, func(_ context.Context, r *Record) error {
		r.Settle(Declared{Text: "x"}, "7", time.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if rec, _ := k.Known(last); rec.By != "" {
		t.Errorf("a definition that was found still counts for %q", rec.By)
	}
	if err := create(k, "mallory", enter); err != nil {
		t.Error(err)
	}

	k.mu.Lock()
	for i := range maxAllCreations {
		k.records[types.UID(fmt.Sprint("crowd", i))] = held{Record: Record{Next: []Next{{Declared: Declared{Text: "x"}}}, By: fmt.Sprint(i)}}
	}
	k.mu.Unlock()
	if err := create(k, "bob", enter); !errors.Is(err, ErrTooMany) {
		t.Errorf("beyond what all may make: %v", err)
	}
}
