package readfilter

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// settleTime merges a burst of policy changes into one. The first is checked without delay.
	settleTime = 100 * time.Millisecond
	// lateAfter is how long a watch may stay unchecked before it ends: with settleTime, less than the second that a
	// revocation may take (RD-7).
	lateAfter = 700 * time.Millisecond
	// quickWorkers handle questions that take microseconds, or wait for a webhook. Those that need computation use one
	// core.
	quickWorkers = 2
	// maxTogether is how many equal watches are checked in one turn.
	maxTogether = 250
)

// asks is what has to be asked about open watches.
type asks interface {
	// ask asks about equal watches that are due, without the lock. It reports which of them still send what their
	// caller may see, and what to remember for the next time; last is what was remembered. In the quick queue it may
	// not settle that: then it is called again in the full one.
	ask(ctx context.Context, queue int, attrs authorizer.Attributes, due []*watching, last any) (same []bool, remember any, settled bool)
}

// rechecks asks, after a policy change, whether the callers of open watches may still see the same. Equal watches share
// one question. Each question is first asked in the quick way, which finds every right that is gone; those that need
// computation then wait in a second queue. In both queues the users take turns, so a user with many watches does not
// delay the watch of another user (NI-6).
type rechecks struct {
	asks asks

	mu     sync.Mutex
	wake   *sync.Cond
	closed bool
	// stale signals that something has to be checked.
	stale chan struct{}
	// policy and instant are what all are checked against, and began is when that began. Policy is nil before the
	// first.
	policy    *snapshot.Snapshot
	instant   time.Time
	began     time.Time
	questions map[digest]*question
	// all are the questions, for iterating over them.
	all     []*question
	users   map[digest]*asker
	callers map[digest]*alike
	// turns are the users with questions in a queue, the next one first, without users whose question is being asked.
	turns [queues][]*asker
}

// The queues.
const (
	quick = iota
	full
	queues
)

// asker is a user with open watches.
type asker struct {
	questions int
	waiting   [queues][]*question
	// hasTurn is true if the user is in the turns of a queue, or a question of theirs is being asked.
	hasTurn [queues]bool
}

// question stands for all watches with equal callers, targets and selectors.
type question struct {
	attrs   authorizer.Attributes
	caller  *alike
	user    *asker
	watches []*watching
	waits   [queues]bool
	// place is its index in all.
	place int
	// last is what was remembered when it was last asked.
	last any
	// since is when it first became due; zero if it is not.
	since time.Time
}

// alike stands for all users that bindings cannot distinguish. If two policies mean the same to one of them, they do to
// all.
type alike struct {
	questions int
	// before and after are the last compared snapshots, and touched is the result.
	before, after *snapshot.Snapshot
	touched       bool
}

func newRechecks(n narrows) *rechecks { return rechecksOf(narrowings{n}) }

func rechecksOf(a asks) *rechecks {
	r := &rechecks{asks: a, questions: map[digest]*question{}, users: map[digest]*asker{}, callers: map[digest]*alike{}, stale: make(chan struct{}, 1)}
	r.wake = sync.NewCond(&r.mu)
	return r
}

// add registers a watch to be checked. Watches with other facts about the request than its attributes are not equal. It
// returns a function that removes it again.
func (r *rechecks) add(w *watching, attrs authorizer.Attributes, facts ...string) (leave func()) {
	who, what := identify(attrs, facts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.questions[what]
	if q == nil {
		q = r.question(who, what, attrs)
	}
	w.place = len(q.watches)
	q.watches = append(q.watches, w)
	if r.policy != nil && w.isDue(r.policy) { // the policy has changed since the request was authorized
		r.ask(q, time.Now())
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		last := len(q.watches) - 1
		q.watches[w.place], q.watches[last].place = q.watches[last], w.place
		q.watches[last] = nil
		if q.watches = q.watches[:last]; last == 0 { // in a queue it has nothing to ask
			r.forget(who, what, q)
		}
	}
}

// question creates a question.
func (r *rechecks) question(who, what digest, attrs authorizer.Attributes) *question {
	if r.users[who] == nil {
		r.users[who] = &asker{}
	}
	of := callerOf(attrs)
	if r.callers[of] == nil {
		r.callers[of] = &alike{}
	}
	q := &question{attrs: attrs, user: r.users[who], caller: r.callers[of], place: len(r.all)}
	q.user.questions++
	q.caller.questions++
	r.questions[what], r.all = q, append(r.all, q)
	return q
}

// forget removes a question without watches.
func (r *rechecks) forget(who, what digest, q *question) {
	last := len(r.all) - 1
	r.all[q.place], r.all[last].place = r.all[last], q.place
	r.all[last] = nil
	r.all = r.all[:last]
	delete(r.questions, what)
	if q.user.questions--; q.user.questions == 0 {
		delete(r.users, who)
	}
	if q.caller.questions--; q.caller.questions == 0 {
		delete(r.callers, callerOf(q.attrs))
	}
}

// identify returns hashes of the user and of the question: everything that a decision can look at is in them.
func identify(attrs authorizer.Attributes, facts ...string) (who, what digest) {
	fs, fieldErr := attrs.GetFieldSelector()
	ls, labelErr := attrs.GetLabelSelector()
	texts := []string{attrs.GetVerb(), attrs.GetNamespace(), attrs.GetAPIGroup(), attrs.GetAPIVersion(), attrs.GetResource(), attrs.GetSubresource(), attrs.GetName(), attrs.GetPath(),
		selectors.FieldText(fs), selectors.LabelText(ls), spell(fieldErr), spell(labelErr), list(facts)}
	name := ""
	if u := attrs.GetUser(); u != nil {
		name = u.GetName()
		texts = append(texts, name, u.GetUID(), list(u.GetGroups()))
		extra := u.GetExtra()
		for _, key := range slices.Sorted(maps.Keys(extra)) {
			texts = append(texts, key, list(extra[key]))
		}
	}
	return digestOf(name), digestOf(texts...)
}

// callerOf hashes everything about a caller that bindings look at.
func callerOf(attrs authorizer.Attributes) digest {
	u := attrs.GetUser()
	if u == nil {
		return digest{}
	}
	return digestOf(u.GetName(), list(u.GetGroups()))
}

func list(all []string) string {
	d := digestOf(all...)
	return string(d[:])
}

func spell(err error) string {
	if err == nil {
		return ""
	}
	return "error: " + err.Error()
}

// isDue reports whether one of the watches was not checked against the policy.
func (q *question) isDue(policy *snapshot.Snapshot) bool {
	for _, w := range q.watches {
		if w.isDue(policy) {
			return true
		}
	}
	return false
}

// due returns the watches that were not checked against the policy, as many as are checked in one turn.
func (q *question) due(policy *snapshot.Snapshot) (due []*watching) {
	for _, w := range q.watches {
		if len(due) == maxTogether {
			break
		}
		if w.isDue(policy) {
			due = append(due, w)
		}
	}
	return due
}

// ask puts a question into the quick queue, even if it waits for computation: the right may be gone by now.
func (r *rechecks) ask(q *question, now time.Time) {
	if q.since.IsZero() {
		q.since = now
	}
	r.enqueue(quick, q)
	select {
	case r.stale <- struct{}{}:
	default:
	}
}

func (r *rechecks) enqueue(queue int, q *question) {
	if q.waits[queue] {
		return
	}
	q.waits[queue] = true
	u := q.user
	u.waiting[queue] = append(u.waiting[queue], q)
	if !u.hasTurn[queue] {
		u.hasTurn[queue] = true
		r.turns[queue] = append(r.turns[queue], u)
	}
	r.wake.Broadcast()
}

// next takes the next question of the user whose turn it is; nil if there is none.
func (r *rechecks) next(queue int) *question {
	if len(r.turns[queue]) == 0 {
		return nil
	}
	u := r.turns[queue][0]
	r.turns[queue] = r.turns[queue][1:]
	q := u.waiting[queue][0]
	u.waiting[queue] = u.waiting[queue][1:]
	q.waits[queue] = false
	return q
}

// asked gives the user another turn, behind all others, if the user has more questions.
func (r *rechecks) asked(queue int, u *asker) {
	if u.hasTurn[queue] = len(u.waiting[queue]) > 0; u.hasTurn[queue] {
		r.turns[queue] = append(r.turns[queue], u)
		r.wake.Broadcast()
	}
}

// advance starts checking against a new policy.
func (r *rechecks) advance(policy *snapshot.Snapshot, instant, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instant = instant
	if r.policy != nil && covers(r.policy, policy) {
		return
	}
	r.policy, r.began = policy, now
	for _, q := range r.all {
		if !q.untouched(policy) {
			r.ask(q, now)
		}
	}
}

// expire ends the watches that were not checked in time, and reports whether others are still due.
func (r *rechecks) expire(now time.Time) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.all {
		switch {
		case q.since.IsZero():
		case now.Sub(q.since) < lateAfter:
			more = true
		default:
			for _, w := range q.watches {
				if w.isDue(r.policy) {
					w.end()
				}
			}
			q.since = time.Time{}
		}
	}
	return more
}

// step asks one question of a queue. It reports false if there is none.
func (r *rechecks) step(ctx context.Context, queue int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.next(queue)
	if q == nil {
		return false
	}
	defer r.asked(queue, q.user)
	policy, instant, last := r.policy, r.instant, q.last
	due := q.due(policy)
	if len(due) == 0 || q.untouched(policy) {
		return true
	}
	r.mu.Unlock()
	same, remember, settled := r.askOf(requestctx.At(ctx, policy, instant), queue, q.attrs, due, last)
	r.mu.Lock()
	if !settled {
		r.enqueue(full, q)
		return true
	}
	q.last = remember
	for i, w := range due {
		switch {
		case !w.isDue(policy):
		case same[i]:
			w.release(policy)
		default:
			w.end()
		}
	}
	since := q.since
	if r.policy != policy { // there is a newer policy by now
		since = r.began
	}
	if q.since = (time.Time{}); q.isDue(r.policy) {
		r.ask(q, since)
	}
	return true
}

// isTouched reports whether the change from one policy to another concerns the caller of a question. It is computed
// once for all questions of the caller.
func (q *question) isTouched(before, policy *snapshot.Snapshot) bool {
	c := q.caller
	if c.before == nil || c.after != policy || c.before != before && !sameLook(c.before, before) {
		c.touched = before.Served != policy.Served || before.Fields != policy.Fields || before.Rules == nil || !before.SameFor(q.attrs.GetUser(), policy)
		c.before, c.after = before, policy
	}
	return c.touched
}

// untouched releases the watches of a caller to whom the policy means exactly what it meant before, and reports whether
// that releases all of them: most changes concern other users (RD-14).
func (q *question) untouched(policy *snapshot.Snapshot) bool {
	for _, w := range q.watches {
		if w.isDue(policy) && q.isTouched(w.checked.Load(), policy) {
			return false
		}
	}
	for _, w := range q.watches {
		if w.isDue(policy) {
			w.release(policy)
		}
	}
	q.since = time.Time{}
	return true
}

// askOf asks without the lock. An authorizer that does not answer in time counts as a refusal.
func (r *rechecks) askOf(ctx context.Context, queue int, attrs authorizer.Attributes, due []*watching, last any) (same []bool, remember any, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, lateAfter)
	defer cancel()
	return r.asks.ask(ctx, queue, attrs, due, last)
}

// work asks questions until the context ends.
func (r *rechecks) work(ctx context.Context, queue int) {
	for {
		for r.step(ctx, queue) {
			continue
		}
		r.mu.Lock()
		for len(r.turns[queue]) == 0 && !r.closed {
			r.wake.Wait()
		}
		closed := r.closed
		r.mu.Unlock()
		if closed {
			return
		}
	}
}

// Run ends watches when a new snapshot changes what their caller may see.
func (s *Stores) Run(ctx context.Context) { s.rechecks.run(ctx, s.cfg.Store) }

// run checks all watches against each policy that is published.
func (r *rechecks) run(ctx context.Context, store *snapshot.Store) {
	var workers sync.WaitGroup
	for range quickWorkers {
		workers.Go(func() { r.work(ctx, quick) })
	}
	workers.Go(func() { r.work(ctx, full) })
	for ctx.Err() == nil {
		next := store.Next()
		policy, instant := store.Now()
		r.advance(policy, instant, time.Now())
		r.wait(ctx, next)
	}
	r.mu.Lock()
	r.closed = true
	r.wake.Broadcast()
	r.mu.Unlock()
	workers.Wait()
}

// wait returns when there is a new policy, but not before this one has settled. Meanwhile it ends watches that are
// late.
func (r *rechecks) wait(ctx context.Context, next <-chan struct{}) {
	tick := time.After(settleTime)
	settled := false
	for {
		changed := next
		if !settled {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			return
		case <-r.stale:
			if tick == nil {
				tick = time.After(settleTime)
			}
		case now := <-tick:
			tick, settled = nil, true
			if r.expire(now) {
				tick = time.After(settleTime)
			}
		}
	}
}
