package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apiserver/pkg/storage/value"
)

// Listed is what is known about the tokens of a user, or of all users.
type Listed struct {
	// Entries are the unexpired ones, the oldest first.
	Entries []Entry
	// Dropped is true if further unexpired entries were dropped to make room.
	Dropped bool
	// Unreadable are the entries that this server cannot read.
	Unreadable int
}

// List reads the tokens of a user, or of all if the name is empty, as etcd has them now.
func (l *Ledger) List(ctx context.Context, user string, now time.Time) (*Listed, error) {
	client, transform, err := l.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	entries, marks := l.issued, []string{l.dropped}
	if user != "" {
		entries += ownerOf(user) + "/"
		marks = []string{l.dropped + ownerOf(user), l.dropped + everybody}
	}
	out := &Listed{}
	err = walk(ctx, client, entries, func(kv *mvccpb.KeyValue) { out.take(ctx, transform, kv, now) })
	for i := 0; i < len(marks) && err == nil; i++ { // after the entries: what is dropped in between is marked
		err = walk(ctx, client, marks[i], func(kv *mvccpb.KeyValue) { out.Dropped = out.Dropped || untilOf(kv) > now.Unix() })
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out.Entries, func(a, b Entry) int { return int(a.Issued - b.Issued) })
	return out, nil
}

func (l *Listed) take(ctx context.Context, transform value.Transformer, kv *mvccpb.KeyValue, now time.Time) {
	text, _, err := transform.TransformFromStorage(ctx, kv.Value, value.DefaultContext(kv.Key))
	var e Entry
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	switch {
	case err != nil:
		l.Unreadable++
	case e.Expires > now.Unix():
		l.Entries = append(l.Entries, e)
	}
}
