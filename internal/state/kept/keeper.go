package kept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/state/ledger"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// maxRecord is the maximum size of a record; etcd accepts somewhat more.
	maxRecord = 1 << 20
	// maxCreations is how many definitions one caller may be creating, and maxAllCreations how many all callers
	// together: a record of each is kept until the definition is found, or can no longer arrive.
	maxCreations    = 16
	maxAllCreations = 1024
	// timeout bounds what one call of etcd may take.
	timeout = 10 * time.Second
	// page is how many records are read at once.
	page = 20
	// attempts is how often the write of a record is retried if another server has changed it.
	attempts = 20
)

// ErrTooMany means that too many writes are in progress.
var ErrTooMany = errors.New("too many unfinished writes of field permissions: try again in two minutes")

// Keeper has the records of one cluster. All its replicas write and follow them.
type Keeper struct {
	etcd   ledger.Etcd
	prefix string

	mu      sync.Mutex
	records map[types.UID]held
	begun   map[types.UID]string // definitions that are about to be recorded here, with their creators
	// followed is the revision up to which records is complete.
	followed int64
	synced   bool
	changed  []func()
}

type held struct {
	Record
	revision int64
}

// New returns a keeper. It does not connect yet.
func New(etcd ledger.Etcd) *Keeper {
	return &Keeper{etcd: etcd, prefix: etcd.Below("fields/declared"), records: map[types.UID]held{}, begun: map[types.UID]string{}}
}

// OnChange registers a function that is called when a record changes. Call it before Follow.
func (k *Keeper) OnChange(changed func()) { k.changed = append(k.changed, changed) }

// HasSynced reports whether all records were read once.
func (k *Keeper) HasSynced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.synced
}

// Known returns what this server knows about a definition.
func (k *Keeper) Known(uid types.UID) (Record, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, found := k.records[uid]
	return h.Record, found && !h.IsEmpty()
}

// UIDs returns the UIDs of the definitions with a record.
func (k *Keeper) UIDs() []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []types.UID
	for uid, h := range k.records {
		if !h.IsEmpty() {
			all = append(all, uid)
		}
	}
	return slices.Sorted(slices.Values(all))
}

// Read returns the record of a definition, as etcd has it now.
func (k *Keeper) Read(ctx context.Context, uid types.UID) (Record, error) {
	client, transform, err := k.open()
	if err != nil {
		return Record{}, err
	}
	h, err := k.read(ctx, client, transform, uid)
	return h.Record, err
}

// Change changes a record, and retries if another writer was faster. If the change returns an error, nothing is
// written.
func (k *Keeper) Change(ctx context.Context, uid types.UID, change func(context.Context, *Record) error) error {
	client, transform, err := k.open()
	if err != nil {
		return err
	}
	for range attempts {
		was, err := k.read(ctx, client, transform, uid)
		if err != nil {
			return err
		}
		now := was.Record
		if err := change(ctx, &now); err != nil {
			return err
		}
		done, err := k.write(ctx, client, transform, uid, was, &now)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("record of definition %s was changed by others %d times", uid, attempts)
}

// Create creates the record of a definition that a caller is about to create. It fails if the caller is creating too
// many.
func (k *Keeper) Create(ctx context.Context, uid types.UID, caller string, change func(context.Context, *Record) error) error {
	by := hashOf(caller)
	if err := k.begin(uid, by); err != nil {
		return err
	}
	defer func() {
		k.mu.Lock()
		delete(k.begun, uid)
		k.mu.Unlock()
	}()
	return k.Change(ctx, uid, func(ctx context.Context, rec *Record) error {
		if err := change(ctx, rec); err != nil {
			return err
		}
		rec.By = by
		return nil
	})
}

// begin counts the definitions that are being created, by all servers as far as this one knows.
func (k *Keeper) begin(uid types.UID, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, own := len(k.begun), 0
	for _, other := range k.begun {
		if other == by {
			own++
		}
	}
	for other, h := range k.records {
		if _, counted := k.begun[other]; counted || !h.isCreation() {
			continue
		}
		if all++; h.By == by {
			own++
		}
	}
	if own >= maxCreations || all >= maxAllCreations {
		return ErrTooMany
	}
	k.begun[uid] = by
	return nil
}

// hashOf returns the name of a caller in a fixed size.
func hashOf(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:16])
}

func (k *Keeper) open() (*clientv3.Client, value.Transformer, error) {
	transform, known := k.etcd.Transformer(snapshot.FieldPermissions.GroupResource())
	if !known {
		return nil, nil, errors.New("it is not known yet how to store it")
	}
	client, err := k.etcd.Client()
	return client, transform, err
}

func (k *Keeper) read(ctx context.Context, client *clientv3.Client, transform value.Transformer, uid types.UID) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := client.Get(ctx, k.prefix+string(uid))
	if err != nil || len(got.Kvs) == 0 {
		return held{}, err
	}
	return k.parse(ctx, transform, got.Kvs[0])
}

func (k *Keeper) parse(ctx context.Context, transform value.Transformer, kv *mvccpb.KeyValue) (held, error) {
	h := held{revision: kv.ModRevision}
	text, _, err := transform.TransformFromStorage(ctx, kv.Value, value.DefaultContext(kv.Key))
	if err == nil {
		err = json.Unmarshal(text, &h.Record)
	}
	if err != nil {
		return h, fmt.Errorf("%s cannot be read: %w", kv.Key, err)
	}
	return h, nil
}

// write stores a record, or deletes an empty one, and reports whether no other writer was faster.
func (k *Keeper) write(ctx context.Context, client *clientv3.Client, transform value.Transformer, uid types.UID, was held, now *Record) (bool, error) {
	before, err := json.Marshal(was.Record)
	if err != nil {
		return false, err
	}
	after, err := json.Marshal(now)
	if err != nil {
		return false, err
	}
	if string(before) == string(after) {
		return true, nil
	}
	if len(after) > maxRecord {
		return false, ErrTooMany
	}
	at := k.prefix + string(uid)
	op := clientv3.OpDelete(at)
	if !now.IsEmpty() {
		sealed, err := transform.TransformToStorage(ctx, after, value.DefaultContext(at))
		if err != nil {
			return false, err
		}
		op = clientv3.OpPut(at, string(sealed))
	}
	// If the caller disconnects, the write still completes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(at), "=", was.revision)).Then(op).Commit()
	if err != nil || !done.Succeeded {
		return false, err
	}
	k.take(uid, held{*now, done.Header.Revision})
	return true, nil
}

// take keeps a record that is newer than the known one. A deleted record is known as an empty one until it was
// followed.
func (k *Keeper) take(uid types.UID, h held) {
	k.mu.Lock()
	newer := h.revision > max(k.records[uid].revision, k.followed)
	if newer {
		k.records[uid] = h
	}
	k.mu.Unlock()
	if newer {
		k.tell()
	}
}

// forget drops deleted records: events older than the revision no longer arrive.
func (k *Keeper) forget(uids []types.UID, revision int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.followed = max(k.followed, revision)
	for _, uid := range uids {
		if h, found := k.records[uid]; found && h.IsEmpty() && h.revision <= k.followed {
			delete(k.records, uid)
		}
	}
}

func (k *Keeper) tell() {
	for _, changed := range k.changed {
		changed()
	}
}

// Follow follows the records until the context ends. While etcd cannot be reached, the known records are kept.
func (k *Keeper) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.follow(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Following what custom resources declared failed; the server tries again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (k *Keeper) follow(ctx context.Context) error {
	client, transform, err := k.open()
	if err != nil {
		return err
	}
	revision, err := k.list(ctx, client, transform)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for change := range client.Watch(ctx, k.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		if err := change.Err(); err != nil {
			return err
		}
		var uids []types.UID
		for _, event := range change.Events {
			uid := types.UID(strings.TrimPrefix(string(event.Kv.Key), k.prefix))
			h := held{revision: event.Kv.ModRevision}
			if event.Type == clientv3.EventTypePut {
				if h, err = k.parse(ctx, transform, event.Kv); err != nil {
					return err
				}
			}
			k.take(uid, h)
			uids = append(uids, uid)
		}
		if n := len(change.Events); n > 0 {
			k.forget(uids, change.Events[n-1].Kv.ModRevision)
		}
	}
	return errors.New("the watch has ended")
}

// list reads all records at one revision. One that cannot be read is an error: what it guards is not known.
func (k *Keeper) list(ctx context.Context, client *clientv3.Client, transform value.Transformer) (revision int64, _ error) {
	all := map[types.UID]held{}
	for from := k.prefix; from != ""; {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		got, err := client.Get(bounded, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(k.prefix)), clientv3.WithLimit(page), clientv3.WithRev(revision))
		cancel()
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			h, err := k.parse(ctx, transform, kv)
			if err != nil {
				return 0, err
			}
			all[types.UID(strings.TrimPrefix(string(kv.Key), k.prefix))] = h
		}
		if from = ""; got.More {
			from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
		}
	}
	k.mu.Lock()
	for uid, h := range k.records {
		if h.revision > revision {
			all[uid] = h // written here meanwhile
		}
	}
	k.records, k.followed, k.synced = all, max(k.followed, revision), true
	k.mu.Unlock()
	k.tell()
	return revision, nil
}
