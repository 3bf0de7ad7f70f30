package ledger

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// everybody is the mark for all users.
	everybody = "all"
	// mostMarks is how many users have a mark; beyond that, the mark of everybody stands for them.
	mostMarks = 1000
)

// untilOf returns when the last token that a mark stands for expires. A mark that cannot be read does not expire.
func untilOf(kv *mvccpb.KeyValue) int64 {
	until, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return until
}

// mark records until when a dropped entry would have been listed, unless an existing mark lasts as long.
func (l *Ledger) mark(ctx context.Context, client *clientv3.Client, owner string, until int64) error {
	at := l.dropped + owner
	for {
		there, err := client.Get(ctx, at)
		if err != nil {
			return err
		}
		var revision int64
		if len(there.Kvs) > 0 {
			if untilOf(there.Kvs[0]) >= until {
				return nil
			}
			revision = there.Kvs[0].ModRevision
		}
		done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(at), "=", revision)).
			Then(clientv3.OpPut(at, strconv.FormatInt(until, 10))).Commit()
		if err != nil || done.Succeeded {
			return err
		}
	}
}

// tidyMarks deletes marks for entries that would have expired by now, and replaces those of many users by one.
func (l *Ledger) tidyMarks(ctx context.Context, client *clientv3.Client, now time.Time) error {
	var all []*mvccpb.KeyValue
	if err := walk(ctx, client, l.dropped, func(kv *mvccpb.KeyValue) { all = append(all, kv) }); err != nil {
		return err
	}
	many := len(all) > mostMarks
	for _, kv := range all {
		owner := strings.TrimPrefix(string(kv.Key), l.dropped)
		over := untilOf(kv) < now.Add(-grace).Unix()
		if !over && (!many || owner == everybody) {
			continue
		}
		if !over {
			if err := l.mark(ctx, client, everybody, untilOf(kv)); err != nil {
				return err
			}
		}
		_, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).Then(clientv3.OpDelete(string(kv.Key))).Commit()
		if err != nil {
			return err
		}
	}
	return nil
}
