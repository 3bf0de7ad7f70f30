package streams

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Recheck says which streams are checked when the policy changes.
type Recheck string

// The values of the flag.
const (
	// Off checks none of them.
	Off Recheck = "Off"
	// Conditional checks those that were allowed under a condition.
	Conditional Recheck = "Conditional"
	// All checks all of them.
	All Recheck = "All"
)

const (
	// lookAgain is how often the clock is checked.
	lookAgain = 250 * time.Millisecond
	// askAgain is how often conditions on request.time are evaluated again: it is not known when they change.
	askAgain = 10 * time.Second
	// patience is how long an authorizer may take to answer; then it counts as a refusal.
	patience = 700 * time.Millisecond
	// closing is how long a handler has to return before its connection is closed.
	closing = 200 * time.Millisecond
	// askers is how many streams are checked at a time.
	askers = 8
)

// Config configures how streams are ended.
type Config struct {
	Gate    *authorize.Gate
	Store   *snapshot.Store
	Local   authorize.Local
	Recheck Recheck
}

// Streams are the long-running requests.
type Streams struct {
	cfg Config

	mu   sync.Mutex
	open map[*stream]bool
	// some is signalled when there is a stream again.
	some chan struct{}
}

// New returns an empty set of streams. No stream ends before Run.
func New(cfg Config) *Streams {
	return &Streams{cfg: cfg, open: map[*stream]bool{}, some: make(chan struct{}, 1)}
}

// stream is one long-running request.
type stream struct {
	attrs authorizer.Attributes
	// policy is the snapshot that allowed it, as of the instant at which it was last known to be allowed.
	policy *snapshot.Snapshot
	asked  time.Time
	// follows is true if changes of policy can end it, too.
	follows bool
	cancel  context.CancelFunc

	mu       sync.Mutex
	ended    bool
	hijacked func()
}

// Wrap gives long-running requests a context and a connection that can be ended. It runs behind authorization.
func (s *Streams) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder := requestctx.From(r.Context())
		if !s.concerns(holder) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		one := &stream{attrs: holder.Attributes(), policy: holder.Snapshot, asked: holder.Instant, follows: s.follows(holder), cancel: cancel}
		s.enter(one)
		defer s.leave(one)
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(&writer{w, one}), r.WithContext(ctx))
	})
}

// concerns reports whether a request is long-running and may be ended early. Requests of system:masters and of the
// server itself are never ended.
func (s *Streams) concerns(holder *requestctx.State) bool {
	if holder == nil || holder.Attributes() == nil || holder.Snapshot == nil {
		return false
	}
	attrs := holder.Attributes()
	u := attrs.GetUser()
	switch {
	case hasToken(attrs): // it ends, whatever its user may do
		return attrs.GetVerb() == verbs.Watch || s.lasts(attrs)
	case u == nil || u.GetName() == user.APIServerUser || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup):
		return false
	case !s.lasts(attrs):
		return false
	}
	return s.follows(holder) || EndsByTime(holder)
}

// hasToken reports whether the caller came with a narrowed token.
func hasToken(attrs authorizer.Attributes) bool {
	_, ok := attrs.GetUser().(requestctx.TokenUser)
	return ok
}

// lasts reports whether a request is not admitted, or continues after admission.
func (s *Streams) lasts(attrs authorizer.Attributes) bool {
	if !attrs.IsResourceRequest() {
		return false
	}
	if connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None || attrs.GetSubresource() == "log" {
		return true
	}
	if attrs.GetVerb() == verbs.Watch && s.cfg.Gate.Honours(attrs) != nil {
		return true // the storage does not follow it
	}
	return !s.cfg.Local.Local(attrs.GetAPIGroup(), attrs.GetAPIVersion())
}

// follows reports whether changes of policy end the request, too.
func (s *Streams) follows(holder *requestctx.State) bool {
	switch s.cfg.Recheck {
	case All:
		return true
	case Conditional:
		return !holder.Get(requestctx.Request).IsAllowed() || byGrant(holder)
	}
	return false
}

// byGrant reports whether an access grant may have allowed the request: revoking it ends what it has opened. Of a
// connection, the check for create comes later and may be by a grant, too.
func byGrant(holder *requestctx.State) bool {
	if holder.By(requestctx.Request) == links.Access {
		return true
	}
	attrs := holder.Attributes()
	return connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None &&
		holder.Snapshot.Access.Has(attrs.GetUser(), holder.Instant)
}

// EndsByTime reports whether time alone can end the right to a request.
func EndsByTime(holder *requestctx.State) bool {
	if holder == nil || holder.Snapshot == nil || holder.Attributes() == nil {
		return false // the server's own
	}
	if holder.Snapshot.Rules.AsksTime() || !holder.Snapshot.IsTimed() {
		return holder.Snapshot.Rules.AsksTime()
	}
	edges := holder.Snapshot.Edges(holder.Attributes().GetUser())
	return len(edges) > 0 && edges[len(edges)-1].After(holder.Instant)
}

func (s *Streams) enter(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[one] = true; len(s.open) > 1 {
		return // it is awake
	}
	select {
	case s.some <- struct{}{}:
	default:
	}
}

func (s *Streams) leave(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

func (s *Streams) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*stream, 0, len(s.open))
	for one := range s.open {
		all = append(all, one)
	}
	return all
}

// Run ends streams until the context is done. It sleeps while there are none.
func (s *Streams) Run(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for ctx.Err() == nil {
		next := s.cfg.Store.Next()
		due := s.due()
		s.check(ctx, due)
		var clock <-chan time.Time
		if len(s.all()) > 0 {
			clock = tick.C
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-s.some:
		case <-clock:
		}
	}
}

// question is a stream to be checked, and the policy to check it against.
type question struct {
	*stream
	policy *snapshot.Snapshot
	at     time.Time
}

// due returns the streams that a new policy, or the time, may end.
func (s *Streams) due() (questions []question) {
	current, now := s.cfg.Store.Now()
	for _, one := range s.all() {
		policy := one.policy
		if one.follows {
			policy = current
		}
		if now.IsZero() {
			policy = policy.Unknown()
		} else {
			policy = policy.At(now)
		}
		asks := policy.Rules.AsksTime() && now.Sub(one.asked) >= askAgain
		if u, ok := one.attrs.GetUser().(requestctx.TokenUser); ok { // it may have expired, or be revoked, whatever the policy is
			if asks || one.stale(policy, current, now) || !now.Before(u.NarrowedToken().Expires()) {
				revoked := *policy
				revoked.Revoked = current.Revoked
				questions = append(questions, question{one, &revoked, now})
			}
			continue
		}
		if policy.SameRights(one.policy) && !asks {
			continue
		}
		if !asks && policy.Served == one.policy.Served && one.policy.Rules != nil && one.policy.SameFor(one.attrs.GetUser(), policy) {
			one.policy = policy
			continue
		}
		questions = append(questions, question{one, policy, now})
	}
	return questions
}

// stale reports whether a stream with a narrowed token was checked against anything but the current policy and time.
// Links may look at the time, so they are asked again.
func (o *stream) stale(policy, current *snapshot.Snapshot, now time.Time) bool {
	return policy.Rules != o.policy.Rules || policy.Served != o.policy.Served || current.Revoked != o.policy.Revoked || now.Sub(o.asked) >= askAgain
}

// check ends the streams that are no longer allowed.
func (s *Streams) check(ctx context.Context, questions []question) {
	var asking sync.WaitGroup
	turns := make(chan struct{}, askers)
	for _, q := range questions {
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			if !s.allowed(ctx, q) {
				q.end()
				return
			}
			q.stream.policy, q.asked = q.policy, q.at
		})
	}
	asking.Wait()
}

// allowed decides again, without the object: what was decided by the object stays decided.
func (s *Streams) allowed(ctx context.Context, q question) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, attrs := range []authorizer.Attributes{q.attrs, s.created(q.attrs)} {
		if attrs == nil {
			continue
		}
		v := s.cfg.Gate.Decide(requestctx.At(ctx, q.policy, q.at), attrs)
		if v.AtAuthorization() != authorizer.DecisionAllow || ctx.Err() != nil {
			return false
		}
	}
	return true
}

// created returns the check for create that a connection needs in addition to its own verb; nil if it needs none.
func (s *Streams) created(attrs authorizer.Attributes) authorizer.Attributes {
	if connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) == connect.None || attrs.GetVerb() == verbs.Create || !s.cfg.Gate.UniformConnect() {
		return nil
	}
	return authorize.WithVerb(attrs, verbs.Create)
}

// end cancels the request, and closes its connection if the handler has hijacked it and does not return.
func (o *stream) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.ended = true
	o.cancel()
	if o.hijacked != nil {
		time.AfterFunc(closing, o.hijacked)
	}
}
