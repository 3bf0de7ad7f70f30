package readfilter

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/requestctx"
)

// errGateOff is why a list is refused although its objects could be asked about one by one.
var errGateOff = errors.New("the feature gate " + string(features.ShardedListAndWatch) + " is off: lists and watches are narrowed by selectors only")

var errPlaces = errors.New("a conditional permission cannot be used here: the namespaces that the condition looks at are not followed")

// Asks is an error if the storage asks nobody about single objects. Kubernetes skips the selector that asks while its
// gate is off, and would show everything.
func Asks() error {
	if !utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		return errGateOff
	}
	return nil
}

// matcher asks about each object of one list or watch whether its caller may see it (RD-10). To Kubernetes it is a
// selector of shards: the storage asks it about the current and the previous state of every object that it looks at, in
// lists from the cache and from etcd, old revisions, pages, watches and watch-lists.
type matcher struct {
	ctx   context.Context
	store *store
	r     *reading
	each  requestctx.Each
	// selects are the selectors of the list, which Kubernetes asks later and which take less time.
	selects storage.SelectionPredicate
	// known remembers answers; nil if they are not the same for the same state of an object.
	known *answers
	// changes is how often namespaces had changed when it was made.
	changes uint64
	// asked counts the questions.
	asked atomic.Int64
}

var _ sharding.Selector = (*matcher)(nil)

// ask has the storage ask about each object, if the list or watch needs that. It never lets one out unasked.
func (s *store) ask(ctx context.Context, r *reading, opts *storage.ListOptions, watches bool) (*matcher, error) {
	each := r.holder.Get(requestctx.Request).Narrowing().Each
	if each == nil {
		return nil, nil
	}
	if err := Asks(); err != nil {
		return nil, err
	}
	if each.LooksAtNamespace() && !s.stores.cfg.Followed {
		return nil, errPlaces
	}
	m := &matcher{ctx: ctx, store: s, r: r, each: each, selects: opts.Predicate, changes: s.stores.places.count()}
	if !each.LooksAtNamespace() && (s.cached || !watches) {
		// A watch of etcd gives the previous state the revision of the next one, so that nothing tells them apart.
		user, _ := caller(r)
		m.known = s.stores.memory.of(user, each.View())
	}
	opts.Predicate.ShardSelector = m
	return m, nil
}

// Matches implements sharding.Selector. It fails never: each path of the storage makes something else of an error.
func (m *matcher) Matches(obj runtime.Object) (bool, error) {
	m.asked.Add(1)
	return m.shows(obj), nil
}

// shows reports whether an object may be seen. What is not known may not.
func (m *matcher) shows(obj runtime.Object) bool {
	if m.ctx.Err() != nil {
		return false // nobody waits for it
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		countUndecided(err)
		return false
	}
	if shown, known := m.each.At(object.GetNamespace(), object.GetName()); known {
		return shown && m.isShard(obj)
	}
	at := m.known.at(object)
	if shown, ok := m.known.recall(at); ok {
		return shown && m.isShard(obj)
	}
	if cached, ok := obj.(runtime.CacheableObject); ok {
		obj = cached.GetObject()
	}
	if !m.isShard(obj) || !m.isSelected(obj) {
		return false
	}
	shown, err := m.each.Shows(m.ctx, m.store.member(m.r, obj))
	if err != nil && m.ctx.Err() != nil {
		return false
	}
	if err != nil {
		countUndecided(err)
		shown = false
	}
	m.known.remember(at, shown)
	return shown
}

// isSelected asks the selectors of the list.
func (m *matcher) isSelected(obj runtime.Object) bool {
	p := &m.selects
	if (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty()) {
		return true
	}
	ls, fs, err := p.GetAttrs(obj)
	return err == nil && p.MatchesObjectAttributes(ls, fs)
}

// isShard asks the selector of shards that the caller has given, if this server takes them.
func (m *matcher) isShard(obj runtime.Object) bool {
	if m.selects.ShardSelector == nil {
		return true
	}
	ok, err := m.selects.ShardSelector.Matches(obj)
	return ok && err == nil
}

// Empty implements sharding.Selector.
func (m *matcher) Empty() bool { return false }

// String implements sharding.Selector: what the caller has given.
func (m *matcher) String() string {
	if m.selects.ShardSelector == nil {
		return ""
	}
	return m.selects.ShardSelector.String()
}

// Requirements implements sharding.Selector.
func (m *matcher) Requirements() []sharding.ShardRangeRequirement {
	if m.selects.ShardSelector == nil {
		return nil
	}
	return m.selects.ShardSelector.Requirements()
}

// DeepCopySelector implements sharding.Selector. There is nothing to change.
func (m *matcher) DeepCopySelector() sharding.Selector { return m }

var errNotAsked = errors.New("a conditional permission cannot be used here: the storage has not asked about every object")

// settle checks a list that the storage has made, and takes out of it what is not the caller's business.
func (m *matcher) settle(list runtime.Object) error {
	if m == nil {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err // some were not asked about
	}
	if int64(meta.LenList(list)) > m.asked.Load() {
		return errNotAsked
	}
	if sharded, ok := list.(metav1.ShardedListInterface); ok && m.selects.ShardSelector == nil {
		sharded.SetShardInfo(nil)
	}
	return nil
}

// vouches reports whether the objects of a watch come through the matcher.
func (m *matcher) vouches() bool { return m == nil || m.asked.Load() > 0 && Asks() == nil }

// reasonOf is the reason of a failure, for metrics.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*expr.EvalError](err); ok {
		return string(e.Reason)
	}
	return string(expr.ReasonInternal)
}
