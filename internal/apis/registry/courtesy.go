package registry

import (
	"context"
	"sync"
	"time"
)

// patience is how long a writer waits for its turn.
const patience = time.Second

// courtesy lets the writers of one container go one after the other, which saves them from doing their work again and
// again whenever another was faster. It is a courtesy, not a lock: what keeps writers from overwriting each other is
// the store, and who has waited too long — behind a slow admission webhook, or one that writes to the same container
// itself — goes ahead.
type courtesy struct {
	mu     sync.Mutex
	queues map[string]*queue
}

type queue struct {
	turn  chan struct{}
	users int
}

// take waits for the turn. The result ends it.
func (t *courtesy) take(ctx context.Context, key string) (done func()) {
	t.mu.Lock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[key] = q
	}
	q.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(t.queues, key)
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case q.turn <- struct{}{}:
		return func() {
			<-q.turn
			leave()
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return leave
}
