package readfilter

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// keptKey and whose are a value that a check keeps, and one that a request has.
type keptKey struct{}
type whose struct{}

// checked is a sight that notes with which context it is checked.
type checked struct{ with *[]context.Context }

func (checked) Show(e watch.Event) watch.Event { return e }
func (c checked) Same(ctx context.Context) bool {
	*c.with = append(*c.with, ctx)
	return requestctx.NotesOf(ctx).Keep(keptKey{}, func() any { return true }) == true && ctx.Err() == nil
}

// NI-6: equal watches are checked together, as one of them would ask by itself; one without an audit event is another
// question, since grants by break-glass need one. A check ends with its context, not with the request.
func TestSightsAreCheckedTogether(t *testing.T) {
	store := snapshot.NewStore()
	if err := store.Add(rules{}); err != nil {
		t.Fatal(err)
	}
	store.Publish()
	s := NewSights(store)
	s.rechecks.advance(store.Current(), time.Now(), time.Now())
	var with []context.Context
	open := func(level auditinternal.Level, name string) watch.Interface {
		ctx := audit.WithAuditContext(context.WithValue(t.Context(), whose{}, name))
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: level}, nil); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(requestctx.With(ctx, store.Current()))
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "watch", Resource: "secrets", ResourceRequest: true}, requestctx.Allowed())
		w := s.Follow(ctx, watch.NewFake(), checked{&with})
		t.Cleanup(w.Stop)
		end()
		return w
	}
	open(auditinternal.LevelMetadata, "first")
	open(auditinternal.LevelRequest, "second")
	open(auditinternal.LevelNone, "third")
	store.Publish()
	s.rechecks.advance(store.Current(), time.Now(), time.Now())
	for s.rechecks.step(t.Context(), quick) {
		continue
	}
	if len(with) != 3 || len(s.rechecks.all) != 2 {
		t.Fatalf("%d checks of %d questions", len(with), len(s.rechecks.all))
	}
	for i, want := range []string{"first", "first", "third"} {
		if got := with[i].Value(whose{}); got != want || requestctx.From(with[i]).Snapshot != store.Current() || with[i].Err() == nil {
			t.Errorf("check %d: as %v, ended %v", i, got, with[i].Err())
		}
	}
	for _, q := range s.rechecks.all {
		for _, w := range q.watches {
			if w.checked.Load() != store.Current() {
				t.Error("a watch does not go on")
			}
		}
	}
	over, end := context.WithCancel(requestctx.With(t.Context(), store.Current()))
	end()
	if same, _, settled := (sights{}).ask(over, quick, nil, []*watching{{sight: waiting{}, request: t.Context()}}, nil); len(same) != 1 || same[0] || !settled {
		t.Errorf("%v, settled %v", same, settled)
	}
}

// waiting is a sight that is checked until the time is over.
type waiting struct{ checked }

func (waiting) Same(ctx context.Context) bool {
	<-ctx.Done()
	return false
}
