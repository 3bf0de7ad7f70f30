package registry

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	kubestorage "k8s.io/apiserver/pkg/storage"
)

var _ rest.Watcher = &view[*noObject, *noObject]{}

// Watch follows the entries of a namespace, or of all. It is derived from the watch on the containers: each event of
// theirs is compared with what is known of the container, and makes an event of every entry that differs. Where a watch
// begins at a resource version, what is known is what was stored at that version; if that is compacted, the client has
// to list again, as everywhere.
//
// The resource versions of watches are the containers'. An entry keeps its own, which is that of its container before
// the change: a client that resumes from it may see that change again, and never misses one. Bookmarks tell clients
// that want them how far they are.
func (s *view[C, V]) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	if options == nil {
		options = &metainternalversion.ListOptions{}
	}
	namespace := request.NamespaceValue(ctx)
	w := &entryWatch[C, V]{
		view: s, result: make(chan watch.Event), done: make(chan struct{}), known: map[string]C{}, bookmarks: options.AllowWatchBookmarks,
		matches: kubestorage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: kubestorage.DefaultNamespaceScopedAttr},
	}
	if options.LabelSelector != nil {
		w.matches.Label = options.LabelSelector
	}
	if options.FieldSelector != nil {
		w.matches.Field = options.FieldSelector
	}
	query := &metainternalversion.ListOptions{
		Watch: true, ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch,
		AllowWatchBookmarks: options.AllowWatchBookmarks, SendInitialEvents: options.SendInitialEvents, TimeoutSeconds: options.TimeoutSeconds,
	}
	anyVersion := options.ResourceVersion == "" || options.ResourceVersion == "0"
	if initial := options.SendInitialEvents; initial == nil && !anyVersion || initial != nil && !*initial {
		version, err := w.begin(ctx, namespace, options.ResourceVersion, anyVersion)
		if err != nil {
			return nil, err
		}
		query.ResourceVersion, query.ResourceVersionMatch, query.SendInitialEvents = version, "", nil
	}
	source, err := s.containers.store.Watch(s.containers.context(ctx, namespace), query)
	if err != nil {
		return nil, err
	}
	w.source = source
	go w.run(ctx)
	return w, nil
}

// entryWatch turns the events of containers into events of entries.
type entryWatch[C, V object] struct {
	view      *view[C, V]
	source    watch.Interface
	matches   kubestorage.SelectionPredicate
	bookmarks bool
	// known are the containers as they were at the last event.
	known map[string]C
	// live is set once the events are changes in the order of their versions. Before, they are what was there at the
	// beginning, in any order, and no version says how far the client is.
	live bool

	result chan watch.Event
	done   chan struct{}
	once   sync.Once
}

// begin learns what was stored at a version, or is stored now, and returns the version to go on from.
func (w *entryWatch[C, V]) begin(ctx context.Context, namespace, version string, now bool) (string, error) {
	query := &metainternalversion.ListOptions{}
	if !now {
		query.ResourceVersion, query.ResourceVersionMatch = version, metav1.ResourceVersionMatchExact
	}
	list, err := w.view.containers.list(ctx, namespace, query)
	if err != nil {
		return "", err
	}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		c, ok := obj.(C)
		if !ok {
			return fmt.Errorf("%s: cannot watch entries of a %T", w.view.resource(), obj)
		}
		w.known[c.GetNamespace()+"/"+c.GetName()] = c
		return nil
	}); err != nil {
		return "", err
	}
	w.live = true
	at, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	if now {
		version = at.GetResourceVersion()
	}
	return version, nil
}

// ResultChan has the events. It is closed when the watch ends.
func (w *entryWatch[C, V]) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch.
func (w *entryWatch[C, V]) Stop() { w.once.Do(func() { close(w.done) }) }

func (w *entryWatch[C, V]) run(ctx context.Context) {
	defer close(w.result)
	defer w.source.Stop()
	for {
		select {
		case event, ok := <-w.source.ResultChan():
			if !ok || !w.translate(ctx, event) {
				return
			}
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// translate sends what an event of a container means for its entries. It returns false once the watch has stopped.
func (w *entryWatch[C, V]) translate(ctx context.Context, event watch.Event) bool {
	switch event.Type {
	case watch.Bookmark:
		from, err := meta.Accessor(event.Object)
		return err == nil && w.bookmark(ctx, from.GetResourceVersion(), from.GetAnnotations())
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return w.send(ctx, event) // an error
	}
	if shared, ok := event.Object.(runtime.CacheableObject); ok { // several watches have this event
		event.Object = shared.GetObject()
	}
	c, ok := event.Object.(C)
	if !ok {
		return false // whatever it is, going on without it would miss something
	}
	key := c.GetNamespace() + "/" + c.GetName()
	before, known := w.known[key]
	w.known[key] = c
	if event.Type == watch.Deleted {
		delete(w.known, key)
	}
	if event.Type != watch.Added {
		w.live = true
	}
	seen := map[string]bool{}
	changed := false
	if event.Type != watch.Deleted {
		for _, name := range w.view.containers.names(c) {
			seen[name] = true
			entry, _ := w.view.containers.get(c, name)
			var old V
			had := false
			if known {
				old, had = w.view.containers.get(before, name)
			}
			if had && equality.Semantic.DeepEqual(old, entry) {
				continue
			}
			sent, ok := w.change(ctx, old, had, entry, c.GetResourceVersion())
			if !ok {
				return false
			}
			changed = changed || sent
		}
	}
	if known {
		for _, name := range w.view.containers.names(before) {
			if seen[name] {
				continue
			}
			old, _ := w.view.containers.get(before, name)
			if !w.selects(old) {
				continue
			}
			changed = true
			old.SetResourceVersion(c.GetResourceVersion())
			if !w.send(ctx, watch.Event{Type: watch.Deleted, Object: old}) {
				return false
			}
		}
	}
	// A client that resumes need not see this again.
	return !changed || !w.live || !w.bookmarks || w.bookmark(ctx, c.GetResourceVersion(), nil)
}

// change sends an entry that is new or different, as far as the selectors let the client see it.
func (w *entryWatch[C, V]) change(ctx context.Context, old V, had bool, entry V, version string) (sent, ok bool) {
	saw, sees := had && w.selects(old), w.selects(entry)
	event := watch.Event{Object: entry}
	switch {
	case saw && sees:
		event.Type = watch.Modified
	case sees:
		event.Type = watch.Added
	case saw:
		// It was selected and is no longer: for this client it is gone.
		old.SetResourceVersion(version)
		event = watch.Event{Type: watch.Deleted, Object: old}
	default:
		return false, true
	}
	return true, w.send(ctx, event)
}

// selects fails closed: an entry whose attributes cannot be told is not shown.
func (w *entryWatch[C, V]) selects(entry V) bool {
	matches, err := w.matches.Matches(entry)
	return err == nil && matches
}

func (w *entryWatch[C, V]) bookmark(ctx context.Context, version string, annotations map[string]string) bool {
	mark := w.view.kind.newObject()
	mark.SetResourceVersion(version)
	mark.SetAnnotations(annotations)
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: mark})
}

func (w *entryWatch[C, V]) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.done:
		return false
	case <-ctx.Done():
		return false
	}
}
