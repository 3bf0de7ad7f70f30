package timekeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"k8s.io/klog/v2"
)

const (
	// usual is how often the clocks are compared and the largest instant is kept.
	usual = 10 * time.Second
	// patience is how long the other replicas have to answer, and exchange bounds each exchange with etcd.
	patience, exchange = 2 * time.Second, 10 * time.Second
	// counts is how long an answer counts without a newer one.
	counts = 3 * usual
	// secondsToLive is how long the question of a dead server remains.
	secondsToLive = 10
)

// Board is where replicas ask each other for the time: keys in their etcd.
type Board struct {
	Client *clientv3.Client
	Prefix string
	// ID identifies a server; Host is shown to people.
	ID, Host string

	// every is how often, if that is not as usual.
	every time.Duration
}

func (b *Board) key(elements ...string) string {
	return path.Join(append([]string{"/", b.Prefix, "proviso.dev", "time"}, elements...)...)
}

func (b *Board) largest() string             { return b.key("largest") }
func (b *Board) asks() string                { return b.key("asks") + "/" }
func (b *Board) answers(asker string) string { return b.key("answers", asker) + "/" }

// askerOf returns the server whose question has a key.
func (b *Board) askerOf(key string) (id string, isAsk bool) { return strings.CutPrefix(key, b.asks()) }

// ask is the question of a server, and answer is what another server's clock showed after it had seen the question.
type ask struct {
	Host string `json:"host"`
	Seq  int64  `json:"seq"`
}

type answer struct {
	Host string    `json:"host"`
	Seq  int64     `json:"seq"`
	At   time.Time `json:"at"`
	// Wrong is true if the clock is behind an instant seen before. Other servers must not compare with it: they would
	// be in doubt for no reason.
	Wrong bool `json:"wrong,omitempty"`
}

// Agree makes the time of this clock the largest instant seen.
func (k *Keeper) Agree(ctx context.Context, b Board) error {
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	_, err := b.Client.Put(ctx, b.largest(), written(k.hands.Now()))
	return err
}

// Follow compares the clock, again and again, until the context ends. While etcd cannot be reached, the clock is judged
// by the last known evidence.
func (k *Keeper) Follow(ctx context.Context, b Board) {
	c := &comparing{Keeper: k, board: &b, others: map[string]seen{}}
	for ctx.Err() == nil {
		if err := c.attend(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Comparing the clock with those of the replicas failed; the server tries again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// comparing is one server at the board. Only one goroutine uses it.
type comparing struct {
	*Keeper
	board *Board
	lease clientv3.LeaseID
	// others are the clocks that were measured, and those that are wrong, by the ID of their server.
	others map[string]seen

	// seq is the open question; the following fields say since when it is open and who has not answered it; over ends
	// it.
	seq     int64
	asked   time.Duration
	waiting map[string]bool
	over    <-chan time.Time
}

type seen struct {
	other
	at time.Duration
	// wrong: nobody compares with it.
	wrong bool
}

// attend asks and answers until something fails.
func (c *comparing) attend(ctx context.Context) error {
	session, err := concurrency.NewSession(c.board.Client, concurrency.WithTTL(secondsToLive), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	c.lease = session.Lease()
	defer func() {
		session.Orphan()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = c.board.Client.Revoke(bounded, c.lease) // it ends by itself
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := c.put(ctx, c.board.asks()+c.board.ID, ask{c.board.Host, c.seq})
	if err != nil {
		return err
	}
	changes := c.board.Client.Watch(ctx, c.board.key()+"/", clientv3.WithPrefix(), clientv3.WithRev(first+1))
	if err := c.begin(ctx); err != nil {
		return err
	}
	again := time.NewTicker(cmp.Or(c.board.every, usual))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-session.Done():
			return fmt.Errorf("the lease has ended")
		case change, open := <-changes:
			if err := change.Err(); err != nil || !open {
				return fmt.Errorf("the watch has ended: %w", err)
			}
			err = c.hearAll(ctx, change.Events)
		case <-again.C:
			err = c.begin(ctx)
		case <-c.over:
			err = c.finish(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// begin asks all other servers.
func (c *comparing) begin(ctx context.Context) error {
	found, err := c.get(ctx, c.board.asks(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	c.waiting = map[string]bool{}
	for _, kv := range found.Kvs {
		if id, _ := c.board.askerOf(string(kv.Key)); id != c.board.ID {
			c.waiting[id] = true
		}
	}
	if len(c.waiting) == 0 {
		return c.finish(ctx)
	}
	c.seq++
	c.asked, c.over = c.hands.Elapsed(), time.After(patience)
	_, err = c.put(ctx, c.board.asks()+c.board.ID, ask{c.board.Host, c.seq})
	return err
}

func (c *comparing) hearAll(ctx context.Context, events []*clientv3.Event) error {
	for _, event := range events {
		if err := c.hear(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// hear handles what another server has written.
func (c *comparing) hear(ctx context.Context, event *clientv3.Event) error {
	key := string(event.Kv.Key)
	id, isAsk := c.board.askerOf(key)
	from, isAnswer := strings.CutPrefix(key, c.board.answers(c.board.ID))
	switch put := event.Type == clientv3.EventTypePut; {
	case isAsk && id == c.board.ID:
	case isAsk && put:
		return c.reply(ctx, id, event.Kv.Value)
	case isAsk: // it has left
		delete(c.others, id)
		return c.begin(ctx)
	case isAnswer && put:
		return c.measure(ctx, from, event.Kv.Value)
	case key == c.board.largest() && put:
		return c.seen(event.Kv.Value)
	}
	return nil
}

// reply answers a question.
func (c *comparing) reply(ctx context.Context, asker string, question []byte) error {
	var q ask
	if err := json.Unmarshal(question, &q); err != nil {
		return nil //nolint:nilerr // who cannot ask gets no answer
	}
	if q.Seq > 0 {
		a := answer{Host: c.board.Host, Seq: q.Seq, At: c.hands.Now().UTC(), Wrong: c.isBehind()}
		if _, err := c.put(ctx, c.board.answers(asker)+c.board.ID, a); err != nil {
			return err
		}
	}
	if _, known := c.others[asker]; !known && len(c.waiting) == 0 {
		return c.begin(ctx) // it is new here
	}
	return nil
}

// measure handles an answer to the open question. Any other answer is ignored: it may be old.
func (c *comparing) measure(ctx context.Context, from string, text []byte) error {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || a.Seq != c.seq {
		return nil //nolint:nilerr // the same
	}
	now := c.hands.Elapsed()
	c.others[from] = seen{measured(a.Host, a.At, c.asked, now), now, a.Wrong}
	if delete(c.waiting, from); len(c.waiting) > 0 {
		return nil
	}
	return c.finish(ctx)
}

// finish judges the clock by the answers so far, and stores the time if the clock is right. The first time all others
// have to answer; a dead one is dropped with its lease.
func (c *comparing) finish(ctx context.Context) error {
	if len(c.waiting) > 0 && !c.known.Load().compared {
		return c.begin(ctx)
	}
	c.over, c.waiting = nil, nil
	kept, err := c.get(ctx, c.board.largest())
	if err != nil {
		return err
	}
	var revision int64
	e := evidence{compared: true}
	if len(kept.Kvs) > 0 {
		revision = kept.Kvs[0].ModRevision
		if e.largest, err = readTime(kept.Kvs[0].Value); err != nil {
			return fmt.Errorf("%s: %w", c.board.largest(), err)
		}
	}
	for id, o := range c.others {
		if c.hands.Elapsed()-o.at > counts {
			delete(c.others, id)
			continue
		}
		if o.wrong {
			continue
		}
		e.others = append(e.others, o.other)
	}
	c.known.Store(&e)
	if now, trusted := c.Now(); trusted && now.After(e.largest) {
		_, err = c.board.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(c.board.largest()), "=", revision)).
			Then(clientv3.OpPut(c.board.largest(), written(now))).Commit()
	}
	return err
}

// seen handles the largest instant that another server has seen.
func (c *comparing) seen(text []byte) error {
	largest, err := readTime(text)
	if err != nil {
		return err
	}
	if e := *c.known.Load(); e.compared {
		e.largest = largest
		c.known.Store(&e)
	}
	return nil
}

func written(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func readTime(text []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return t, fmt.Errorf("the largest instant that was seen cannot be read: %w; remove it from etcd, and the server keeps another", err)
	}
	return t, nil
}

func (c *comparing) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	return c.board.Client.Get(ctx, key, opts...)
}

// put writes a key that lives as long as this server, and returns the revision.
func (c *comparing) put(ctx context.Context, key string, value any) (int64, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	done, err := c.board.Client.Put(ctx, key, string(data), clientv3.WithLease(c.lease))
	if err != nil {
		return 0, err
	}
	return done.Header.Revision, nil
}
