package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/state/timekeeper"
)

const (
	// secondsToLive is how long a server that has died counts as one of the replicas.
	secondsToLive = 10
	// patience bounds each exchange with etcd while starting.
	patience = 20 * time.Second
	// pause is between attempts, and between looks at files that may change.
	pause = time.Second
)

// Config says who a server is and what it wants to agree on.
type Config struct {
	// ID identifies a server; Host is shown to people.
	ID, Host string
	Settings Settings
	// Trust reads what the server accepts now: authorities can change while it runs.
	Trust func() (Trust, error)
	// Agree changes the record to these settings.
	Agree bool
	// Knows is what this release knows.
	Knows []string
	// Clock is compared with those of the replicas; nil if nothing depends on it.
	Clock *timekeeper.Keeper
}

// Member is one server among the replicas.
type Member struct {
	cfg    Config
	client *clientv3.Client
	prefix string

	lease  clientv3.LeaseID
	shown  string // the entry as it was registered last
	others int
	// changed lists what --agree has changed.
	changed []string
	// at is the revision the record was read at.
	at int64

	state atomic.Pointer[state]
}

// state is whether a member agrees with the record.
type state struct{ err error }

// entry is what a server shows to the others.
type entry struct {
	Host  string   `json:"host"`
	Knows []string `json:"knows,omitempty"`
	Trust
}

// New returns a member that has not joined yet.
func New(cfg Config) *Member {
	m := &Member{cfg: cfg}
	m.state.Store(&state{errors.New("this replica has not read the settings of the replicas yet: try again in a moment")})
	return m
}

// Agreed is nil while the server may serve, and otherwise says why not.
func (m *Member) Agreed() error { return m.state.Load().err }

// Others is how many replicas there were when this one joined, without it.
func (m *Member) Others() int { return m.others }

// Changed lists what Config.Agree has changed in the record.
func (m *Member) Changed() []string { return m.changed }

// Join registers the server and reads the record, which it makes if there is none. An error means that the server must
// not start; a server that differs from the record has joined and does not agree. All keys are below the prefix.
func (m *Member) Join(ctx context.Context, client *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m.client, m.prefix = client, path.Join("/", prefix, "proviso.dev")
	if err := m.register(ctx); err != nil {
		return fmt.Errorf("registering with the other replicas in etcd: %w", err)
	}
	if err := m.meet(ctx); err != nil {
		m.Leave()
		return err
	}
	if err := m.readRecord(ctx); err != nil {
		m.Leave()
		return fmt.Errorf("reading from etcd what the replicas have agreed on: %w", err)
	}
	return nil
}

// Leave removes the server from the list, so no replica has to wait for it. It fails silently: the lease expires
// anyway.
func (m *Member) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), pause)
	defer cancel()
	if _, err := m.client.Revoke(ctx, m.lease); err != nil {
		klog.V(2).InfoS("Registration among the replicas was not given back", "err", err)
	}
}

func (m *Member) replicasKey() string { return m.prefix + "/replicas/" }

func (m *Member) recordKey() string { return m.prefix + "/agreement" }

// register writes the server's entry under a new lease.
func (m *Member) register(ctx context.Context) error {
	trust, err := m.cfg.Trust()
	if err != nil {
		return err
	}
	data, err := json.Marshal(entry{Host: m.cfg.Host, Knows: m.cfg.Knows, Trust: trust})
	if err != nil {
		return err
	}
	lease, err := m.client.Grant(ctx, secondsToLive)
	if err != nil {
		return err
	}
	if _, err := m.client.Put(ctx, m.replicasKey()+m.cfg.ID, string(data), clientv3.WithLease(lease.ID)); err != nil {
		return err
	}
	m.lease, m.shown = lease.ID, string(data)
	return nil
}

// meet checks the server against those that were there before it. Of two that start at the same moment the later one
// sees the earlier, so exactly one of them gives way.
func (m *Member) meet(ctx context.Context) error {
	found, err := m.client.Get(ctx, m.replicasKey(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return fmt.Errorf("reading the list of replicas from etcd: %w", err)
	}
	var own entry
	var earlier []entry
	for _, kv := range found.Kvs {
		var e entry
		if err := json.Unmarshal(kv.Value, &e); err != nil {
			return fmt.Errorf("entry %s in the list of replicas in etcd cannot be read: %w; if no such replica runs, remove it or wait %d s", kv.Key, err, secondsToLive)
		}
		if strings.TrimPrefix(string(kv.Key), m.replicasKey()) == m.cfg.ID {
			own = e
			break
		}
		earlier = append(earlier, e)
	}
	m.others = len(earlier)
	return own.check(earlier)
}

// readRecord reads the record, makes it if there is none, changes it if that is wanted, and adds what only this release
// knows.
func (m *Member) readRecord(ctx context.Context) error {
	for {
		record, revision, err := m.record(ctx)
		if err != nil {
			return err
		}
		var want Settings
		var differences []string
		if revision == 0 {
			want = m.cfg.Settings
		} else {
			differences = m.cfg.Settings.differences(record)
			if m.cfg.Agree && len(differences) > 0 {
				want = m.cfg.Settings.completed(record)
				want.MasterNamespace = m.cfg.Settings.MasterNamespace
				for gate, on := range m.cfg.Settings.Gates {
					want.Gates[gate] = on
				}
			} else if len(differences) == 0 && m.cfg.Settings.missing(record) {
				want = m.cfg.Settings.completed(record)
			} else {
				m.judge(record)
				return nil
			}
		}
		data, err := json.Marshal(want)
		if err != nil {
			return err
		}
		// Only if no other server has written it in the meantime.
		answer, err := m.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(m.recordKey()), "=", revision)).
			Then(clientv3.OpPut(m.recordKey(), string(data))).Commit()
		if err != nil {
			return err
		}
		if answer.Succeeded {
			m.changed, m.at = differences, answer.Header.Revision
			m.judge(want)
			return nil
		}
	}
}

// record returns what is agreed on and the revision of its last change, zero if there is none.
func (m *Member) record(ctx context.Context) (Settings, int64, error) {
	var s Settings
	answer, err := m.client.Get(ctx, m.recordKey())
	if err != nil {
		return s, 0, err
	}
	m.at = answer.Header.Revision
	if len(answer.Kvs) == 0 {
		return s, 0, nil
	}
	return s, answer.Kvs[0].ModRevision, m.decode(answer.Kvs[0].Value, &s)
}

func (m *Member) decode(data []byte, into *Settings) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the record %s cannot be read: %w; remove it from etcd, and the server makes a new one", m.recordKey(), err)
	}
	return nil
}

// judge compares the server with the record.
func (m *Member) judge(record Settings) {
	differences := append(m.cfg.Settings.differences(record), m.cfg.unknown(record)...)
	if len(differences) == 0 {
		m.set(nil)
		return
	}
	m.set(&DifferError{Differences: differences})
}

func (m *Member) set(err error) {
	before := m.state.Swap(&state{err})
	if err != nil && (before.err == nil || before.err.Error() != err.Error()) {
		klog.ErrorS(err, "This replica does not serve")
	}
}

// Run keeps the registration alive and follows the record until the context ends. While etcd cannot be reached the
// server keeps what it knew last.
func (m *Member) Run(ctx context.Context) {
	go m.follow(ctx)
	for ctx.Err() == nil {
		m.stay(ctx)
		if ctx.Err() != nil {
			return
		}
		if err := m.register(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Registering with the other replicas failed; the server tries again", "err", err)
			sleep(ctx, pause)
		}
	}
}

// stay returns when the lease is lost, or when what is shown is no longer true.
func (m *Member) stay(ctx context.Context) {
	alive, err := m.client.KeepAlive(ctx, m.lease)
	if err != nil {
		sleep(ctx, pause)
		return
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case _, ok := <-alive:
			if !ok {
				return
			}
		case <-ticker.C:
			if m.refresh(ctx) != nil {
				return
			}
		}
	}
}

// refresh shows the others what has changed: an authority that was added to the file, say.
func (m *Member) refresh(ctx context.Context) error {
	trust, err := m.cfg.Trust()
	if err != nil {
		return nil //nolint:nilerr // the file is being written, or broken: the server keeps what it had, too
	}
	data, err := json.Marshal(entry{Host: m.cfg.Host, Knows: m.cfg.Knows, Trust: trust})
	if err != nil || string(data) == m.shown {
		return err
	}
	if _, err := m.client.Put(ctx, m.replicasKey()+m.cfg.ID, string(data), clientv3.WithLease(m.lease)); err != nil {
		return err
	}
	m.shown = string(data)
	return nil
}

// follow notices when the record changes.
func (m *Member) follow(ctx context.Context) {
	for ctx.Err() == nil {
		for change := range m.client.Watch(ctx, m.recordKey(), clientv3.WithRev(m.at+1)) {
			if change.Err() != nil {
				break
			}
			for _, event := range slices.Backward(change.Events) {
				if event.Type == clientv3.EventTypeDelete {
					break // the next server that starts makes it again
				}
				var record Settings
				if err := m.decode(event.Kv.Value, &record); err != nil {
					m.set(err)
				} else {
					m.judge(record)
				}
				break
			}
		}
		sleep(ctx, pause)
		switch record, revision, err := m.record(ctx); {
		case revision == 0: // etcd did not answer, or the next server that starts makes it again
		case err != nil:
			m.set(err)
		default:
			m.judge(record)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
