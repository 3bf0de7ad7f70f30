package snapshot

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// shelf is a source whose objects a test puts and removes, one kind on each board.
type shelf map[schema.GroupVersionResource]*board

// newShelf has the kinds that are given.
func newShelf(kinds ...Kind) shelf {
	s := shelf{}
	for _, k := range kinds {
		s[k.GroupVersionResource] = &board{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), synced: true}
	}
	return s
}

func (s shelf) Objects(k Kind) (Objects, error) {
	b := s[k.GroupVersionResource]
	switch {
	case b == nil:
		return nil, nil
	case b.broken:
		return nil, errors.New("the source is broken")
	}
	return b, nil
}

type board struct {
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
	synced   bool
	broken   bool
	// deaf has handlers refused.
	deaf bool
}

type registration struct {
	cache.ResourceEventHandlerRegistration
	*board
}

func (r registration) HasSynced() bool { return r.synced }

func (b *board) GetIndexer() cache.Indexer { return b.indexer }

func (b *board) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if b.deaf {
		return nil, errors.New("nobody listens")
	}
	b.handlers = append(b.handlers, h)
	return registration{board: b}, nil
}

// put adds or replaces an object.
func (s shelf) put(t *testing.T, k Kind, o metav1.Object) {
	t.Helper()
	b := s[k.GroupVersionResource]
	old, exists, err := b.indexer.Get(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.indexer.Add(o); err != nil {
		t.Fatal(err)
	}
	for _, h := range b.handlers {
		if exists {
			h.OnUpdate(old, o)
		} else {
			h.OnAdd(o, false)
		}
	}
}

// remove deletes an object; missed says that nobody saw when.
func (s shelf) remove(t *testing.T, k Kind, o metav1.Object, missed bool) {
	t.Helper()
	b := s[k.GroupVersionResource]
	if err := b.indexer.Delete(o); err != nil {
		t.Fatal(err)
	}
	var told any = o
	if missed {
		told = cache.DeletedFinalStateUnknown{Key: o.GetName(), Obj: o}
	}
	for _, h := range b.handlers {
		h.OnDelete(told)
	}
}
