package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The longest life of all tokens that were ever issued is in etcd, and only grows. The limit of one server says nothing
// about tokens that another server has issued, or this one before it was restarted with a smaller limit.

// Longest returns how long a token can live that was issued by any server on this etcd: at least as long as own, which
// is the limit of this server. It is an error if that is not known.
func (l *Ledger) Longest(ctx context.Context, own time.Duration) (time.Duration, error) {
	client, err := l.etcd.Client()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	longest, _, err := l.readLongest(ctx, client)
	return max(longest, own), err
}

// readLongest returns the longest life, and the revision of the key; 0 if there is none yet. Then the tokens that are
// listed tell what a release without the key has issued.
func (l *Ledger) readLongest(ctx context.Context, client *clientv3.Client) (longest time.Duration, revision int64, err error) {
	found, err := client.Get(ctx, l.longest)
	if err != nil {
		return 0, 0, err
	}
	if len(found.Kvs) > 0 {
		seconds, err := strconv.ParseInt(string(found.Kvs[0].Value), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("the key %s in etcd, which has the longest life of a token in seconds, cannot be read: %w", l.longest, err)
		}
		return time.Duration(seconds) * time.Second, found.Kvs[0].ModRevision, nil
	}
	keys, err := l.keys(ctx, client, l.issued)
	for _, k := range keys {
		longest = max(longest, time.Duration(k.expires-k.entered+1)*time.Second)
	}
	return longest, 0, err
}

// allow makes sure, before a token is handed out, that all servers know how long one can live.
func (l *Ledger) allow(ctx context.Context, client *clientv3.Client, life time.Duration) error {
	if life <= time.Duration(l.allowed.Load()) {
		return nil
	}
	for {
		longest, revision, err := l.readLongest(ctx, client)
		if err != nil {
			return err
		}
		if revision > 0 && life <= longest {
			l.allowed.Store(int64(longest))
			return nil
		}
		longest = max(longest, life)
		done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.longest), "=", revision)).
			Then(clientv3.OpPut(l.longest, strconv.FormatInt(int64((longest+time.Second-1)/time.Second), 10))).Commit()
		if err != nil {
			return err
		}
		if done.Succeeded {
			l.allowed.Store(int64(longest))
			return nil
		}
	}
}
