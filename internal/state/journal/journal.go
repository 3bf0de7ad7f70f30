package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/klog/v2"
)

// DefaultEntries is how many changes are kept.
const DefaultEntries = 1000

// Config is what a journal needs.
type Config struct {
	// Connect connects to the etcd with the policy. It is called on first use.
	Connect func() (*clientv3.Client, error)
	// Prefix is the prefix of the storage; the journal is below it, beside the record that replicas agree on.
	Prefix string
	// Entries is how many changes are kept.
	Entries int
}

// Journal is the journal of one cluster, which all its replicas write.
type Journal struct {
	cfg    Config
	prefix string
	writes atomic.Uint64

	mu         sync.Mutex
	connected  *clientv3.Client
	transforms map[schema.GroupResource]value.Transformer
}

// New returns a journal. It does not connect yet.
func New(cfg Config) *Journal {
	return &Journal{
		cfg: cfg, prefix: path.Join("/", cfg.Prefix, "proviso.dev") + "/journal/",
		transforms: map[schema.GroupResource]value.Transformer{},
	}
}

// Client connects on first use.
func (j *Journal) Client() (*clientv3.Client, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.connected != nil {
		return j.connected, nil
	}
	client, err := j.cfg.Connect()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	j.connected = client
	return client, nil
}

// Close ends the connection. Afterwards nothing can be written.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.connected != nil {
		_ = j.connected.Close() // nothing waits in it
	}
}

// timeout bounds what one call of etcd may take.
const timeout = 10 * time.Second

// Below returns the key below which other data of the server is stored, beside the journal.
func (j *Journal) Below(name string) string {
	return path.Join("/", j.cfg.Prefix, "proviso.dev", name) + "/"
}

// Transformer returns the encryption of entries about a resource.
func (j *Journal) Transformer(resource schema.GroupResource) (value.Transformer, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t, known := j.transforms[resource]
	return t, known
}

func (j *Journal) know(resource schema.GroupResource, t value.Transformer) {
	if around, ok := t.(interface{ Plain() value.Transformer }); ok {
		t = around.Plain() // which would treat an entry as an unreadable object
	}
	if t == nil {
		t = identity.NewEncryptCheckTransformer()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.transforms[resource] = t
}

// newKey returns a unique key. The resource in it determines how the entry is encrypted.
func (j *Journal) newKey(resource schema.GroupResource, now time.Time) (string, error) {
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%016x%s.%s", j.prefix, now.UnixNano(), hex.EncodeToString(random[:]), resource), nil
}

// put writes an entry.
func (j *Journal) put(ctx context.Context, key string, e *Entry) error {
	client, err := j.Client()
	if err != nil {
		return err
	}
	transform, known := j.Transformer(schema.GroupResource{Group: e.Group, Resource: e.Resource})
	if !known {
		return fmt.Errorf("%s is not journaled", e.Resource)
	}
	data, err := sealed(ctx, e, transform, key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	_, err = client.Put(ctx, key, string(data))
	return err
}

// forget removes the entry of a change that was not made.
func (j *Journal) forget(ctx context.Context, key string) {
	client, err := j.Client()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		_, err = client.Delete(ctx, key)
	}
	if err != nil {
		klog.ErrorS(err, "An entry of the policy journal stays, of a change that was not made", "key", key)
	}
}

// trimEvery is after how many writes the entries are counted.
const trimEvery = 16

// trim drops the oldest entries beyond those that are kept.
func (j *Journal) trim(ctx context.Context) error {
	client, err := j.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	counted, err := client.Get(ctx, j.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	surplus := counted.Count - int64(j.cfg.Entries)
	if surplus <= 0 {
		return nil
	}
	// At the same revision as the count, so what another replica has trimmed since is not counted as surplus again.
	oldest, err := client.Get(ctx, j.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(surplus), clientv3.WithRev(counted.Header.Revision))
	if err != nil || len(oldest.Kvs) == 0 {
		return err
	}
	last := string(oldest.Kvs[len(oldest.Kvs)-1].Key)
	_, err = client.Delete(ctx, j.prefix, clientv3.WithRange(last+"\x00"))
	return err
}

// written counts a write, and trims now and then.
func (j *Journal) written(ctx context.Context) {
	if j.writes.Add(1)%trimEvery != 1 {
		return
	}
	if err := j.trim(ctx); err != nil {
		klog.ErrorS(err, "The policy journal was not trimmed")
	}
}

// ErrOff is the error of a server without a journal.
var ErrOff = errors.New("this server keeps no journal of policy (--policy-history-entries=0)")

// Record is an entry that is still packed. Manifests compress well: a journal that is small in etcd can be large when
// all of it is unpacked, so entries are unpacked one by one.
type Record struct {
	// Entry has everything but the contents.
	Entry

	open func() (Entry, error)
}

// Open unpacks the whole entry.
func (r *Record) Open() (Entry, error) { return r.open() }

// Records reads the journal, in the order of the changes. Unreadable entries are left out, and counted.
func (j *Journal) Records(ctx context.Context) (records []Record, unreadable int, err error) {
	if j == nil || j.cfg.Entries == 0 {
		return nil, 0, ErrOff
	}
	client, err := j.Client()
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end := clientv3.GetPrefixRangeEnd(j.prefix)
	for from := j.prefix; ; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(100)) // an answer of etcd is bounded, too
		if err != nil {
			return nil, 0, err
		}
		for _, kv := range page.Kvs {
			r, err := j.record(ctx, kv)
			if err != nil {
				unreadable++
				continue
			}
			records = append(records, r)
		}
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.At(), b.At()) })
	if surplus := len(records) - j.cfg.Entries; surplus > 0 {
		records = records[surplus:]
	}
	return records, unreadable, nil
}

// record decrypts an entry, and unpacks it to check that this works.
func (j *Journal) record(ctx context.Context, kv *mvccpb.KeyValue) (r Record, err error) {
	key := string(kv.Key)
	_, resource, _ := strings.Cut(strings.TrimPrefix(key, j.prefix), ".")
	transform, known := j.Transformer(schema.ParseGroupResource(resource))
	if !known {
		return r, fmt.Errorf("%s is not journaled", resource)
	}
	data, _, err := transform.TransformFromStorage(ctx, kv.Value, value.DefaultContext(key))
	if err != nil {
		return r, err
	}
	r.open = func() (e Entry, err error) {
		e, err = unpacked(data)
		e.written = uint64(kv.CreateRevision)
		return e, err
	}
	r.Entry, err = r.open()
	r.Before, r.After = nil, nil
	return r, err
}

// NamespaceSince returns the revision at which a namespace was created; 0 if it is not stored in the etcd of the
// journal.
func (j *Journal) NamespaceSince(ctx context.Context, name string) (uint64, error) {
	client, err := j.Client()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := client.Get(ctx, path.Join("/", j.cfg.Prefix, "namespaces")+"/"+name, clientv3.WithKeysOnly())
	if err != nil || len(found.Kvs) == 0 {
		return 0, err
	}
	return uint64(found.Kvs[0].CreateRevision), nil
}
