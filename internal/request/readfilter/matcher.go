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

// Asks returns an error if the storage does not ask about single objects. While its gate is off, Kubernetes skips the
// selector that asks, and would show everything.
func Asks() error {
	if !utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		return errGateOff
	}
	return nil
}

// matcher asks about each object of one list or watch whether its caller may see it (RD-10). To Kubernetes it is a
// shard selector: the storage asks it about the current and the previous state of every object that it reads, in lists
// from the cache and from etcd, old revisions, pages, watches and watch-lists.
type matcher struct {
	ctx   context.Context
	store *store
	r     *reading
	each  requestctx.Each
	// selects are the selectors of the list. Kubernetes evaluates them later, but they are cheaper, so the matcher asks
	// them first.
	selects storage.SelectionPredicate
	// known caches answers; nil if they can differ for the same state of an object.
	known *answers
	// changes is how often namespaces had changed when the matcher was created.
	changes uint64
	// asked counts the questions.
	asked atomic.Int64
}

var _ sharding.Selector = (*matcher)(nil)

// ask makes the storage ask about each object, if the list or watch needs that. No object leaves unasked.
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
		// A watch of etcd gives the previous state the revision of the next one, so they cannot be distinguished.
		user, _ := caller(r)
		m.known = s.stores.memory.of(user, each.View())
	}
	opts.Predicate.ShardSelector = m
	return m, nil
}

// Matches implements sharding.Selector. It never fails: each path of the storage treats an error differently.
func (m *matcher) Matches(obj runtime.Object) (bool, error) {
	m.asked.Add(1)
	return m.shows(obj), nil
}

// shows reports whether an object may be seen. In doubt, it may not.
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

// isShard asks the shard selector of the caller, if this server accepts them.
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

// settle checks a list from the storage, and removes what the caller must not learn.
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

// vouches reports whether the objects of a watch pass through the matcher.
func (m *matcher) vouches() bool { return m == nil || m.asked.Load() > 0 && Asks() == nil }

// reasonOf is the reason of a failure, for metrics.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*expr.EvalError](err); ok {
		return string(e.Reason)
	}
	return string(expr.ReasonInternal)
}
