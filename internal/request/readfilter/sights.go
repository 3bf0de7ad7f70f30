package readfilter

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Sight is what the caller of a watch sees of objects with hidden fields.
type Sight interface {
	// Show returns what the caller sees of an event.
	Show(watch.Event) watch.Event
	// Same reports whether the caller sees the same under the policy of a context. If so, events are shown under that
	// policy from now on. The context is that of an equal watch, and its notes are of this check: what is kept there is
	// decided once for all equal watches.
	Same(ctx context.Context) bool
}

// Sights are the open watches of resources with hidden fields. They are held, checked and ended by the same rules as
// those under a condition (RD-7).
type Sights struct {
	store    *snapshot.Store
	rechecks *rechecks
}

// NewSights returns an empty set of watches. Without Run, no event is sent after the first change of policy.
func NewSights(store *snapshot.Store) *Sights { return &Sights{store, rechecksOf(sights{})} }

// Run ends watches when what their caller sees has changed.
func (s *Sights) Run(ctx context.Context) { s.rechecks.run(ctx, s.store) }

// Follow wraps the watch of a request, which sends events as its caller sees them.
func (s *Sights) Follow(ctx context.Context, inner watch.Interface, sight Sight) watch.Interface {
	holder := requestctx.From(ctx)
	w := newWatching(inner, holder, s.store)
	w.sight, w.request = sight, ctx
	w.leave = s.rechecks.add(w, holder.Attributes(), strconv.FormatBool(authorize.IsAudited(ctx)))
	go w.run()
	return w
}

// sights asks whether the callers of watches still see the same.
type sights struct{}

// ask implements asks. It asks as one of the requests would, under the policy of the context.
func (sights) ask(ctx context.Context, _ int, _ authorizer.Attributes, due []*watching, _ any) (same []bool, remember any, settled bool) {
	request, cancel := context.WithCancel(context.WithoutCancel(due[0].request))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	at := requestctx.From(ctx)
	request = requestctx.WithNotes(requestctx.At(request, at.Snapshot, at.Instant))
	for _, w := range due {
		same = append(same, w.sight.Same(request))
	}
	return same, nil, true
}
