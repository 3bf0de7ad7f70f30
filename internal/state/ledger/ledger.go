package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"proviso.dev/proviso/internal/state/snapshot"
)

// Limits of the ledger (NI-6). A user who asks for many tokens evicts their own entries first, then those of the users
// with the most.
const (
	PerUser = 50
	Most    = 4 << 20
	// spare is how many more a user may have before the surplus is dropped in one go.
	spare = 10
	// slack is how much one server may write before it checks the total.
	slack = Most / 16
	// timeout bounds what one call of etcd may take.
	timeout = 10 * time.Second
	// page is how many entries are read at once: an answer of etcd is bounded, too.
	page = 200
	// grace is how long expired entries are kept: clocks of replicas differ.
	grace = time.Minute
)

// Etcd is where entries are stored, and how they are encrypted: like those of the journal.
type Etcd interface {
	Client() (*clientv3.Client, error)
	Below(name string) string
	Transformer(resource schema.GroupResource) (value.Transformer, bool)
}

// Ledger is the ledger of one cluster, which all its replicas write.
type Ledger struct {
	etcd Etcd
	// issued is the prefix of the entries, and dropped that of the marks for dropped entries.
	issued, dropped string
	// longest is the key with the longest life of a token, and allowed is what this server knows to be in it.
	longest string
	allowed atomic.Int64
	// written counts the bytes since the total was last checked, and looking is set during a check.
	written atomic.Int64
	looking atomic.Bool
}

// New returns a ledger. It does not connect yet.
func New(etcd Etcd) *Ledger {
	return &Ledger{etcd: etcd, issued: etcd.Below("tokens/issued"), dropped: etcd.Below("tokens/dropped"), longest: etcd.Below("tokens") + "longest"}
}

// Enter records a token. An error means that it may not be listed, and must not be issued.
func (l *Ledger) Enter(ctx context.Context, e Entry, now time.Time) error {
	client, transform, err := l.open()
	if err != nil {
		return err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	at := l.keyOf(&e, len(text), now)
	sealed, err := transform.TransformToStorage(ctx, text, value.DefaultContext(at))
	if err != nil {
		return err
	}
	// If the caller disconnects, the write still completes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := l.allow(ctx, client, time.Duration(e.Expires-e.Issued)*time.Second); err != nil {
		return fmt.Errorf("how long a token can live: %w", err)
	}
	own := l.issued + ownerOf(e.User) + "/"
	done, err := client.Txn(ctx).Then(clientv3.OpPut(at, string(sealed)), clientv3.OpGet(own, clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return err
	}
	if done.Responses[1].GetResponseRange().Count > PerUser+spare {
		if err := l.trimUser(ctx, client, ownerOf(e.User), now); err != nil {
			return fmt.Errorf("dropping the oldest of the user: %w", err)
		}
	}
	if l.written.Add(int64(len(at)+len(text))) > slack {
		return l.Trim(ctx, now)
	}
	return nil
}

func (l *Ledger) open() (*clientv3.Client, value.Transformer, error) {
	transform, known := l.etcd.Transformer(snapshot.TokenRevocations.GroupResource())
	if !known {
		return nil, nil, errors.New("it is not known yet how to store it")
	}
	client, err := l.etcd.Client()
	return client, transform, err
}

// trimUser drops a user's surplus entries.
func (l *Ledger) trimUser(ctx context.Context, client *clientv3.Client, owner string, now time.Time) error {
	keys, err := l.keys(ctx, client, l.issued+owner+"/")
	if err != nil {
		return err
	}
	over, live := split(keys, now)
	surplus := live[:max(0, len(live)-PerUser)] // by their keys the oldest are first
	return l.drop(ctx, client, over, surplus, owner)
}

// Trim drops expired entries and, if the total is too large, the oldest ones of the users with the most.
func (l *Ledger) Trim(ctx context.Context, now time.Time) error {
	if !l.looking.CompareAndSwap(false, true) {
		return nil // another request does
	}
	defer l.looking.Store(false)
	client, err := l.etcd.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	l.written.Store(0)
	keys, err := l.keys(ctx, client, l.issued)
	if err != nil {
		return err
	}
	over, live := split(keys, now)
	if err := l.drop(ctx, client, over, surplus(live, Most), everybody); err != nil {
		return err
	}
	return l.tidyMarks(ctx, client, now)
}

// surplus returns the oldest entries of the users with the most, until the rest fits.
func surplus(live []key, most int) (out []key) {
	held, of := 0, map[string]int{}
	queues := map[string][]key{}
	for _, k := range live {
		held += k.size
		of[k.owner] += k.size
		queues[k.owner] = append(queues[k.owner], k)
	}
	for held > most {
		largest := ""
		for owner := range queues {
			if c := cmp.Compare(of[owner], of[largest]); largest == "" || c > 0 || c == 0 && owner < largest {
				largest = owner
			}
		}
		first := queues[largest][0]
		out = append(out, first)
		held, of[largest] = held-first.size, of[largest]-first.size
		if queues[largest] = queues[largest][1:]; len(queues[largest]) == 0 {
			delete(queues, largest)
		}
	}
	return out
}

// split separates entries that expired a while ago from the others.
func split(keys []key, now time.Time) (over, live []key) {
	for _, k := range keys {
		if k.expires+int64(grace/time.Second) <= now.Unix() {
			over = append(over, k)
		} else {
			live = append(live, k)
		}
	}
	return over, live
}

// keys reads the keys below a prefix.
func (l *Ledger) keys(ctx context.Context, client *clientv3.Client, prefix string) (all []key, err error) {
	err = walk(ctx, client, prefix, func(kv *mvccpb.KeyValue) {
		if k, ok := l.parse(string(kv.Key)); ok {
			all = append(all, k)
		}
	}, clientv3.WithKeysOnly())
	return all, err
}

// walk visits what is below a prefix, as it was at one revision.
func walk(ctx context.Context, client *clientv3.Client, prefix string, visit func(*mvccpb.KeyValue), opts ...clientv3.OpOption) error {
	end, at := clientv3.GetPrefixRangeEnd(prefix), int64(0)
	for from := prefix; ; {
		got, err := client.Get(ctx, from, append(opts, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(at))...)
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			visit(kv)
		}
		if !got.More {
			return nil
		}
		from, at = string(got.Kvs[len(got.Kvs)-1].Key)+"\x00", cmp.Or(at, got.Header.Revision)
	}
}

// perTxn is the number of operations in one transaction, somewhat below etcd's limit.
const perTxn = 100

// drop deletes entries. It first marks that some of them have not expired, so no list is incomplete without saying so.
func (l *Ledger) drop(ctx context.Context, client *clientv3.Client, over, surplus []key, owner string) error {
	until := int64(0)
	for _, k := range surplus {
		until = max(until, k.expires)
	}
	if len(surplus) > 0 {
		if err := l.mark(ctx, client, owner, until); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(append(over, surplus...), perTxn) {
		var ops []clientv3.Op
		for _, k := range some {
			ops = append(ops, clientv3.OpDelete(k.text))
		}
		if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	return nil
}
