package sink

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"
)

// delivery takes the events of one sink from its spool to its target: in order, one batch at a time, again and again
// until the sink has acknowledged them or the spool has dropped them. It runs on a goroutine of its own, which is the
// only place where anything waits for a sink.
type delivery struct {
	cfg    *Config
	name   string
	spool  *spool
	reader reader
	tracer oteltrace.Tracer

	mu       sync.Mutex
	target   *target // nil: nowhere to send to, for now
	changed  chan struct{}
	draining bool
	failure  failure

	attempts attempts
	tries    int // in a row, for the span
	done     chan struct{}
	limit    int // of events in a batch, lower while the sink finds batches too large
	hunt     hunt
	taker    *target   // has taken something since the search began; nil if none has
	said     time.Time // when the log last said that one was
}

// failure is the last one, until a batch is delivered.
type failure struct {
	text string
	at   time.Time
}

func newDelivery(cfg *Config, name string, s *spool) *delivery {
	return &delivery{
		cfg: cfg, name: name, spool: s, reader: reader{spool: s}, tracer: cfg.TracerProvider.Tracer("proviso.dev/proviso/internal/features/dynamicaudit/sink"),
		changed: make(chan struct{}), done: make(chan struct{}), limit: cfg.BatchEvents,
	}
}

// aim sets where batches go from now on. A batch that is being retried is tried there at once.
func (d *delivery) aim(t *target) {
	d.mu.Lock()
	old := d.target
	d.target = t
	d.signal()
	d.mu.Unlock()
	if old != nil && old != t {
		old.close()
	}
}

// drain asks for a last effort: deliver what waits, and end when nothing waits any more or an attempt fails.
func (d *delivery) drain() {
	d.mu.Lock()
	d.draining = true
	d.signal()
	d.mu.Unlock()
}

func (d *delivery) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *delivery) state() (t *target, draining bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.target, d.draining, d.changed
}

// run delivers until the context ends or draining is done. What is left stays in the spool.
func (d *delivery) run(ctx context.Context) {
	defer close(d.done)
	defer d.reader.close()
	for ctx.Err() == nil {
		limit := d.limit
		if d.hunt.on() {
			limit = d.hunt.next()
		}
		_, draining, changed := d.state()
		b, err := d.reader.next(limit, d.cfg.BatchBytes)
		if err != nil {
			d.failed(plainText(err.Error()))
			if draining || !d.pause(ctx, d.cfg.MaxBackoff, changed) {
				return
			}
			continue
		}
		switch {
		case b.empty():
			if !d.awaitEvents(ctx) {
				return
			}
		case len(b.events) == 0: // all damaged
			d.spool.ack(b, 0)
		default:
			if !d.deliver(ctx, b) {
				return
			}
		}
	}
}

// awaitEvents waits until something is spooled; false if the delivery has to end.
func (d *delivery) awaitEvents(ctx context.Context) bool {
	_, draining, changed := d.state()
	if draining {
		return false
	}
	d.reader.close() // a quiet sink holds neither memory nor files
	select {
	case <-d.spool.wake:
	case <-changed:
	case <-ctx.Done():
		return false
	}
	return true
}

// deliver tries until the sink has the batch, or a smaller part must be sent first, or trying makes no sense any more;
// false if the delivery has to end.
func (d *delivery) deliver(ctx context.Context, b *batch) bool {
	backoff := d.cfg.MinBackoff
	for {
		t, draining, changed := d.state()
		if t == nil {
			if draining {
				return false
			}
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return false
			}
		}
		// The parts of a batch that was refused count as one: finding one event must not take the turns of others.
		if !draining && !d.hunt.on() && t.limiter.Wait(ctx) != nil {
			return false
		}
		err := d.attempt(ctx, t, b.events)
		switch {
		case err == nil:
			d.spool.ack(b, 0)
			d.succeeded(t, len(b.events))
			return true
		case refusedForGood(err) && len(b.events) > 1:
			d.doubt()
			d.hunt.refused(len(b.events))
			return true
		case refusedForGood(err):
			d.doubt()
			if err = d.isolated(ctx, t, b); err == nil {
				return true
			}
		}
		if ctx.Err() != nil {
			return false
		}
		d.failed(err.Error())
		wait := backoff/2 + rand.N(backoff/2+1)
		var answer *answerError
		if errors.As(err, &answer) {
			wait = max(wait, answer.retryAfter)
		}
		if draining || d.spool.superseded(b) {
			return !draining
		}
		if !d.pause(ctx, wait, changed) {
			return false
		}
		if d.spool.superseded(b) {
			return true
		}
		backoff = min(2*backoff, d.cfg.MaxBackoff)
	}
}

// attempt sends the events once, in a span of its own.
func (d *delivery) attempt(ctx context.Context, t *target, events [][]byte) error {
	d.tries++
	ctx, span := d.tracer.Start(ctx, "audit.deliver", oteltrace.WithAttributes(
		attribute.String("sink", d.name), attribute.Int("events", len(events)), attribute.Int("attempt", d.tries)))
	defer span.End()
	start := time.Now()
	released, err := t.post(ctx, events)
	d.attempts.observe(time.Since(start), err)
	if !released {
		d.reader.buf = nil
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	} else {
		d.tries = 0
	}
	return err
}

// pause waits before the next attempt; a change since the last one ends it early. False if the delivery has to end.
func (d *delivery) pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return false
	}
	return true
}

// certain forgets that the clock was in doubt.
func (d *delivery) certain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure.text == doubtfulText {
		d.failure = failure{}
	}
}

func (d *delivery) failed(text string) {
	d.mu.Lock()
	first := d.failure.text == ""
	d.failure = failure{text: text, at: time.Now()}
	d.mu.Unlock()
	if first { // and not again until it works: the status and the metrics count
		klog.InfoS("Audit sink does not take events; they are kept and sent again", "sink", d.name, "reason", text)
	}
}

// succeeded notes that the sink has taken n events. If a batch was refused that it takes in parts, batches stay as
// small as the largest of them for a while.
func (d *delivery) succeeded(t *target, n int) {
	d.taker = t
	switch {
	case d.hunt.took(n):
		d.limit, d.hunt = max(1, d.hunt.passed), hunt{}
	case !d.hunt.on():
		d.limit = min(d.limit+d.limit/8+1, d.cfg.BatchEvents)
	}
	d.recovered()
}

// recovered records that the sink answers correctly again.
func (d *delivery) recovered() {
	d.mu.Lock()
	first := d.failure.text != ""
	d.failure = failure{}
	d.mu.Unlock()
	if first {
		klog.InfoS("Audit sink takes events again", "sink", d.name)
	}
}
