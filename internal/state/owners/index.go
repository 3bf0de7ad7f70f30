package owners

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"
)

const (
	// field stands for the UIDs of owners in our own selectors. No request can select by it.
	field = "metadata.ownerReferences.uid"
	// maxKinds is how many kinds of owners are distinguished for a resource. A resource with more is always searched.
	maxKinds = 256
	// maxLength is the maximum length of their names.
	maxLength = 128
	// caughtUp is how long a watch cache counts as up to date, if other replicas write, too.
	caughtUp = 5 * time.Second
)

// Index finds the dependents of an owner, in all resources whose storage it decorates. Its zero value is ready for use.
type Index struct {
	// Alone is true if no other process writes to the storage. Set it before using the index.
	Alone bool

	catchingUp sync.Mutex
	mu         sync.RWMutex
	stores     map[schema.GroupResource][]*indexed // a custom resource has one for each version
	owners     map[schema.GroupResource]*kinds
	views      map[schema.GroupResource]bool
}

// Object is a stored object with an owner.
type Object struct {
	Resource        schema.GroupResource
	Namespace, Name string
	UID             types.UID
}

// Knows reports whether the objects of a resource are stored here, so that Owned finds them.
func (x *Index) Knows(resource schema.GroupResource) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.stores[resource]) > 0 || x.views[resource]
}

// HasNone records that the objects of a resource that is not stored have no owners.
func (x *Index) HasNone(resource schema.GroupResource) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.views == nil {
		x.views = map[schema.GroupResource]bool{}
	}
	x.views[resource] = true
}

// Owned returns the objects that name an owner, whose kind has this name in any group. An error means that there may be
// more.
func (x *Index) Owned(ctx context.Context, kind string, owner types.UID) ([]Object, error) {
	x.mu.RLock()
	all := make([]*indexed, 0, len(x.stores))
	for _, stores := range x.stores {
		all = append(all, stores[len(stores)-1])
	}
	x.mu.RUnlock()
	ctx = bare{ctx}
	if err := x.catchUp(ctx, all); err != nil {
		return nil, err
	}
	var found []Object
	for _, s := range all {
		if !s.owners.has(kind) {
			continue
		}
		objects, err := s.owned(ctx, owner)
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

// bare is a context without values: the values in a request's context do not apply to these reads.
type bare struct{ context.Context }

// Value implements context.Context.
func (bare) Value(any) any { return nil }

// catchUp waits until every storage was read once: objects from before the start are not recorded until then. If other
// processes write, too, every watch cache must have been up to date recently.
func (x *Index) catchUp(ctx context.Context, all []*indexed) error {
	late := func(s *indexed) bool { return s.late(x.Alone) }
	if !slices.ContainsFunc(all, late) {
		return nil
	}
	x.catchingUp.Lock()
	defer x.catchingUp.Unlock()
	all = slices.DeleteFunc(slices.Clone(all), func(s *indexed) bool { return !late(s) })
	errs := make([]error, len(all))
	workqueue.ParallelizeUntil(ctx, 8, len(all), func(i int) { _, errs[i] = all[i].owned(ctx, "none") })
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// indexed is the storage of a resource.
type indexed struct {
	storage.Interface
	resource schema.GroupResource
	prefix   string
	newList  func() runtime.Object
	owners   *kinds

	mu    sync.RWMutex
	fresh time.Time
}

// owned returns the objects with an owner.
func (s *indexed) owned(ctx context.Context, owner types.UID) ([]Object, error) {
	start := time.Now()
	list := s.newList()
	err := s.Interface.GetList(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: byOwner{fields.OneTermEqualSelector(field, string(owner))}, IndexFields: []string{field},
		GetAttrs: func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil },
	}}, list)
	if err != nil {
		return nil, err
	}
	var found []Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		// Without a watch cache there is no index: then this lists all stored objects, and nothing else records their
		// owners.
		s.owners.note(item)
		uids, err := uidsOf(item)
		if err != nil || !slices.Contains(uids, string(owner)) {
			return err
		}
		m, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		found = append(found, Object{s.resource, m.GetNamespace(), m.GetName(), m.GetUID()})
		return nil
	})
	if err == nil {
		s.caughtUp(start)
	}
	return found, err
}

// byOwner chooses a value of the index. It matches whatever is found there: no field of an object holds its owners.
type byOwner struct{ fields.Selector }

// Matches implements fields.Selector.
func (byOwner) Matches(fields.Fields) bool { return true }

// DeepCopySelector implements fields.Selector.
func (o byOwner) DeepCopySelector() fields.Selector { return byOwner{o.Selector.DeepCopySelector()} }

func (s *indexed) late(alone bool) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fresh.IsZero() || !alone && time.Since(s.fresh) > caughtUp
}

func (s *indexed) caughtUp(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.fresh) {
		s.fresh = at
	}
}

// kinds are the kinds of the owners of a resource's objects.
type kinds struct {
	mu    sync.RWMutex
	names map[string]bool // in lower case
	all   bool            // there are too many to remember
}

// has reports whether an object may have an owner of a kind.
func (k *kinds) has(kind string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all || k.names[strings.ToLower(kind)]
}

// note records the kinds of the owners of an object.
func (k *kinds) note(object runtime.Object) {
	m, err := meta.Accessor(object)
	if err != nil {
		return // it has no owners
	}
	for _, owner := range m.GetOwnerReferences() {
		if !k.has(owner.Kind) {
			k.add(strings.ToLower(owner.Kind))
		}
	}
}

func (k *kinds) add(kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.names) >= maxKinds || len(kind) > maxLength {
		k.all = true
		return
	}
	if k.names == nil {
		k.names = map[string]bool{}
	}
	k.names[kind] = true
}

// uidsOf returns the UIDs of an object's owners.
func uidsOf(object any) ([]string, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, errors.Join(errors.New("the object has no metadata"), err)
	}
	var uids []string
	for _, owner := range m.GetOwnerReferences() {
		uids = append(uids, string(owner.UID))
	}
	return uids, nil
}
