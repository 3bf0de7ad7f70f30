package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// A sink that permanently refuses a batch may refuse its size, or one event in it, nearly all of which a caller may
// have chosen. No event must block another. So the batch is halved until the refused event is found. That event is sent
// again without its bodies; if the sink refuses that, too, it is set aside in a file beside the spool, and counted.
//
// A sink that refuses everything, because it is not set up as it should be, must not have all its events set aside: see
// control.

// refusedForGood reports whether it is useless to send the same again after an answer.
func refusedForGood(err error) bool {
	var answer *answerError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// hunt is the search for the event that a sink refuses.
type hunt struct {
	// left is how many events, from the next one on, were refused together; 0 while nothing is looked for.
	left int
	// passed is the largest part that the sink has taken since.
	passed int
}

func (h *hunt) on() bool { return h.left > 0 }

// next is how many events to send next.
func (h *hunt) next() int { return max(1, h.left/2) }

// refused notes that n events were refused together.
func (h *hunt) refused(n int) { h.left = n }

// took notes that n events were taken. Unless that ends the search, what is in the way is among the rest.
func (h *hunt) took(n int) (over bool) {
	if !h.on() {
		return false
	}
	h.passed = max(h.passed, n)
	h.left = max(0, h.left-n)
	return !h.on()
}

// doubt forgets, where a search begins, that the sink took events before: it may have stopped to.
func (d *delivery) doubt() {
	if !d.hunt.on() {
		d.taker = nil
	}
}

// isolated settles the event that was refused alone. The error says why it could not: the sink takes nothing at all,
// for now. The event is at fault only if the sink takes another one and refuses this one again: the sink may have
// recovered in between.
func (d *delivery) isolated(ctx context.Context, t *target, b *batch) error {
	if d.taker != t {
		if err := d.attempt(ctx, t, [][]byte{control(time.Now())}); err != nil {
			return fmt.Errorf("sink refuses every event: %w", err)
		}
		d.taker = t
		if err := d.attempt(ctx, t, b.events); err == nil {
			d.spool.ack(b, 0)
			d.succeeded(t, 1)
			return nil
		} else if !refusedForGood(err) {
			return err
		}
	}
	if bare, ok := withoutBodies(b.events[0]); ok {
		err := d.attempt(ctx, t, [][]byte{bare})
		if err == nil {
			d.spool.ack(b, 1)
			d.settled()
			return nil
		}
		if !refusedForGood(err) {
			return err
		}
	}
	if err := d.spool.setAside(b); err != nil {
		klog.ErrorS(err, "Audit event that a sink refuses cannot be kept", "sink", d.name)
	}
	if now := time.Now(); now.Sub(d.said) > time.Minute { // callers must not be able to fill the log
		d.said = now
		klog.InfoS("Audit sink refuses an event, which is set aside", "sink", d.name)
	}
	d.settled()
	return nil
}

// settled ends the search with its event found.
func (d *delivery) settled() {
	d.hunt = hunt{}
	d.recovered()
}

// control is an event with nothing of a caller's in it. A sink that has taken nothing since the search began is asked
// with it whether it takes any event: only then is it the event that is at fault. To readers of the sink it says
// what happened.
func control(now time.Time) []byte {
	at := now.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	id := appendIdentity(nil)
	return fmt.Appendf(nil, `{"level":"Metadata","auditID":"%s","stage":"ResponseComplete","requestURI":"/","verb":"get","user":{},"requestReceivedTimestamp":"%s","stageTimestamp":"%s",`+
		`"annotations":{"%s":"%s","audit.proviso.dev/notice":"the sink refused an event"}}`, id, at, at, identityKey, id)
}
