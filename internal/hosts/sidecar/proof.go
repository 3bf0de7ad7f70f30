package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// proofLife is how long a proof holds.
	proofLife = time.Second
	// proofWait is how long a request waits for the next proof if the last one has ended: on a busy machine a canary
	// takes longer than a proof holds. It is well below the timeout of the authorization webhook.
	proofWait = time.Second
	// readyLife is how long after a proof the sidecar counts as ready: while no request needs a proof, canaries are
	// rare.
	readyLife = 3 * time.Second
)

// proof is the interlock (SC-7): conditions are honoured only while it is proven that the API server that asks also
// calls admission.
//
// A proof is made by a nonce that was seen three times: in a question of authorization, in an admission, and in the
// refusal that came back. It belongs to the connection on which the question came, and ends with it, after a second, or
// when anything about the webhook's manifest changes.
type proof struct {
	now  func() time.Time
	wait time.Duration

	mu sync.Mutex
	// news is closed when there is something new for those who wait.
	news chan struct{}
	// epoch counts what voids every proof; a canary that began in an earlier one proves nothing.
	epoch int
	// manifest is why the manifest is not as it should be; nil if it is.
	manifest error
	open     map[string]bool
	canary   *canary
	// until is how long each connection is proven.
	until map[string]time.Time
	// watched are the connections that were proven since the manifest last changed.
	watched map[string]bool
	// failure is why the last canary proved nothing.
	failure error
	// needed is when a proof was needed last, and wanted asks for a canary at once.
	needed time.Time
	wanted chan struct{}
}

// canary is one attempt.
type canary struct {
	nonce    string
	began    time.Time
	epoch    int
	asked    string // the connection
	admitted bool
}

func newProof(now func() time.Time) *proof {
	return &proof{now: now, wait: proofWait, news: make(chan struct{}), manifest: errors.New("the manifest of the admission webhook has not been looked at yet"), open: map[string]bool{}, until: map[string]time.Time{}, watched: map[string]bool{},
		failure: errors.New("no canary has come back yet"), wanted: make(chan struct{}, 1)}
}

// want asks for a canary at once.
func (p *proof) want() {
	select {
	case p.wanted <- struct{}{}:
	default: // there was a request
	}
}

// begin sends a canary off. Only one is on its way.
func (p *proof) begin(nonce string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canary = &canary{nonce: nonce, began: p.now(), epoch: p.epoch}
}

// Asked implements webhooks.Interlock.
func (p *proof) Asked(connection, nonce string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.canary; c != nil && c.nonce == nonce && p.open[connection] {
		c.asked = connection
	}
}

// Admitted implements webhooks.Interlock.
func (p *proof) Admitted(nonce string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.canary; c != nil && c.nonce == nonce {
		c.admitted = true
	}
	return refusal(nonce)
}

// refusal is the error that the canary must receive.
func refusal(nonce string) string {
	return "the sidecar refuses what its canary writes, to see that it is asked: " + nonce
}

// end takes the canary back; refused reports whether it heard the refusal of its nonce.
func (p *proof) end(refused bool, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	c := p.canary
	p.canary = nil
	switch {
	case c == nil:
		return
	case failure != nil:
		p.failure = failure
	case c.asked == "":
		p.failure = errors.New("the API server does not ask the authorization webhook about the canary")
	case !refused || !c.admitted:
		p.failure = errors.New("the API server does not call the admission webhook")
	case c.epoch != p.epoch || !p.open[c.asked]:
		p.failure = errors.New("something changed while the canary was on its way")
	default:
		p.failure = nil
		p.until[c.asked] = c.began.Add(proofLife)
		p.watched[c.asked] = true
	}
}

// tell wakes those who wait. The mutex is held.
func (p *proof) tell() {
	close(p.news)
	p.news = make(chan struct{})
}

// Proven implements webhooks.Interlock.
func (p *proof) Proven(ctx context.Context, connection string) error {
	p.need()
	news, err := p.proven(connection)
	if news == nil {
		return err
	}
	p.want()
	late := time.NewTimer(p.wait)
	defer late.Stop()
	for news != nil {
		select {
		case <-news:
			news, err = p.proven(connection)
		case <-late.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// need notes that proofs are needed. The first one who needs some after a while asks for the next.
func (p *proof) need() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isNeeded() {
		p.want()
	}
	p.needed = p.now()
}

// isNeeded reports whether proofs are needed at the moment. The mutex is held.
func (p *proof) isNeeded() bool { return p.now().Sub(p.needed) < proofLife }

// pause is how long the next canary can wait.
func (p *proof) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isNeeded() {
		return canaryPeriod
	}
	return idlePeriod
}

// proven is nil if a connection is. Otherwise there are news to wait for if all that is missing is the next canary.
func (p *proof) proven(connection string) (news <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.manifest != nil:
		return nil, fmt.Errorf("conditional permissions are not honoured at the moment: %w", p.manifest)
	case p.open[connection] && p.now().Before(p.until[connection]):
		return nil, nil
	case p.watched[connection]:
		news = p.news
	}
	return news, errors.New("conditional permissions are not honoured at the moment: it is not proven that the API server calls the admission webhook")
}

// Watched implements webhooks.Interlock. A server keeps its static webhooks while their files stay as they are: one
// proof is enough for a connection. What hangs on the object is held to more; what is only checked is not refused when
// a canary is late.
func (p *proof) Watched(connection string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.manifest != nil:
		return fmt.Errorf("fields, protected attributes and grants of RBAC cannot be checked at the moment: %w", p.manifest)
	case !p.open[connection] || !p.watched[connection]:
		return errors.New("fields, protected attributes and grants of RBAC cannot be checked at the moment: it is not proven that the API server calls the admission webhook")
	}
	return nil
}

// Ready is nil while any connection is proven, or would be at the next request.
func (p *proof) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.manifest != nil {
		return p.manifest
	}
	now := p.now()
	for connection, until := range p.until {
		if p.failure == nil {
			until = until.Add(readyLife - proofLife)
		}
		if p.open[connection] && now.Before(until) {
			return nil
		}
	}
	if p.failure != nil {
		return p.failure
	}
	return fmt.Errorf("no canary has come back within %s", readyLife)
}

// look takes in the state of the manifest. Any change voids every proof.
func (p *proof) look(changed bool, state error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if changed || state != nil || p.manifest != nil {
		p.epoch++
		clear(p.until)
		clear(p.watched)
		p.tell()
		if state == nil {
			p.want()
		}
	}
	p.manifest = state
}

// opened and closed take in connections.
func (p *proof) opened(connection string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[connection] = true
	p.want()
	delete(p.until, connection)
	delete(p.watched, connection)
}

func (p *proof) closed(connection string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell()
	delete(p.open, connection)
	delete(p.until, connection)
	delete(p.watched, connection)
}
