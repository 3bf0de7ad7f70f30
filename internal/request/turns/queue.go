package turns

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// How many may wait. A waiting request keeps a seat of priority and fairness, so only few may.
const (
	maxWaiting         = 10  // of one caller
	maxWaitingTogether = 100 // of all callers
	retryAfter         = 1   // second
)

// Queue gives turns. Its zero value is ready, with half of the processors, but at least one, as slots. A nil queue
// never waits; a command uses it, since it has no other callers.
type Queue struct {
	// Slots is how many run at a time; 0 is half of the processors.
	Slots int

	mu               sync.Mutex
	running, waiting int
	lanes            map[key]*lane
	ready            []*lane // with waiting requests and none running, the longest first
}

// key identifies a caller. It has a fixed size, however long the user's name is.
type key [sha256.Size]byte

// lane holds the turns of one caller.
type lane struct {
	key     key
	running bool
	waiting []chan struct{}
}

// keyOf is the user, or the namespace of a service account: a user who can create service accounts can create many.
func keyOf(u user.Info) key {
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		return sha256.Sum256([]byte("namespace " + namespace))
	}
	return sha256.Sum256([]byte("user " + u.GetName()))
}

// Take waits for a turn of the user. The result ends it and must be called. An error, a 429, says that too many wait,
// or that the request ended first.
func (q *Queue) Take(ctx context.Context, u user.Info) (done func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	l := q.lane(keyOf(u))
	if len(l.waiting) >= maxWaiting || q.waiting >= maxWaitingTogether {
		q.drop(l)
		q.mu.Unlock()
		return nil, errBusy("too many requests of this kind by %q, or by all users, are waiting", u.GetName())
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	q.waiting++
	if !l.running && len(l.waiting) == 1 {
		q.ready = append(q.ready, l)
	}
	q.dispatch()
	q.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
		if !q.leave(l, turn) {
			return nil, errBusy("the request by %q had no turn in time, since others were served", u.GetName())
		}
	}
	return sync.OnceFunc(func() { q.end(l) }), nil
}

func errBusy(format, who string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf(format, who)+": try again", retryAfter)
}

// lane finds the lane of a caller, or creates it.
func (q *Queue) lane(k key) *lane {
	if q.lanes == nil {
		q.lanes = map[key]*lane{}
	}
	l := q.lanes[k]
	if l == nil {
		l = &lane{key: k}
		q.lanes[k] = l
	}
	return l
}

// drop removes an empty lane.
func (q *Queue) drop(l *lane) {
	if !l.running && len(l.waiting) == 0 {
		delete(q.lanes, l.key)
	}
}

// dispatch gives turns while there are slots.
func (q *Queue) dispatch() {
	slots := q.Slots
	if slots == 0 {
		slots = max(1, runtime.GOMAXPROCS(0)/2)
	}
	for q.running < slots && len(q.ready) > 0 {
		l := q.ready[0]
		q.ready = slices.Delete(q.ready, 0, 1)
		turn := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.running = true
		q.running, q.waiting = q.running+1, q.waiting-1
		close(turn)
	}
}

// leave removes a request that no longer waits. It returns true if the turn has come meanwhile.
func (q *Queue) leave(l *lane, turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(l.waiting, turn)
	if at < 0 {
		return true
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	q.waiting--
	if len(l.waiting) == 0 && !l.running {
		q.ready = slices.DeleteFunc(q.ready, func(r *lane) bool { return r == l })
	}
	q.drop(l)
	return false
}

// end gives the turn to the next caller. The lane goes to the end of the line.
func (q *Queue) end(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.running = false
	q.running--
	if len(l.waiting) > 0 {
		q.ready = append(q.ready, l)
	}
	q.drop(l)
	q.dispatch()
}
