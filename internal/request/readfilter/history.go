package readfilter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
)

// What is remembered of one resource is bounded in bytes and for each user (NI-6): everything that a caller chooses,
// such as a selector of a megabyte, is kept as a hash.
const (
	// maxAsked is how many questions of one user are remembered. Beyond it that user lists again.
	maxAsked = 1000
	// maxKept is how many of all users are: some ten megabytes. It takes a hundred users who ask in ever other ways.
	maxKept = 100_000
)

// history remembers since which revision each caller sees what they see. Who watches from an older one has listed by
// another right, and would keep what they may no longer see: they have to list again (RD-7). What is not known, because
// the caller has not listed it here or asked in more ways than are kept, is not watched from any revision of before:
// whether the policy has changed meanwhile, or anything else, which may be that of others, does not show (NI-1).
type history struct {
	mu    sync.Mutex
	users map[digest]*asked
	kept  int
}

// digest stands for a text that a caller chose.
type digest [sha256.Size]byte

// asked is what one user asked for.
type asked struct {
	eras map[digest]era
}

type era struct {
	view  requestctx.View
	since uint64
	// floor is the revision of a change of the right: a list of before does not make the right older.
	floor uint64
}

// since is the revision from which on the caller's right holds, and what they see by it.
func (s *store) since(ctx context.Context, r *reading) (since uint64, view requestctx.View, err error) {
	view = s.stores.places.view(r.holder.Get(requestctx.Request).Narrowing())
	user, what := caller(r)
	since, err = s.history.since(user, what, view, func() (uint64, error) { return s.GetCurrentResourceVersion(ctx) })
	return since, view, err
}

// listed notes the revision of a list, from which on its caller can watch.
func (s *store) listed(r *reading, view requestctx.View, list runtime.Object) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return
	}
	if at, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil {
		user, what := caller(r)
		s.history.from(user, what, view, at)
	}
}

// caller is who asks, and for what, as they asked for it.
func caller(r *reading) (user, what digest) {
	name := ""
	if u := r.attrs.GetUser(); u != nil {
		name = u.GetName()
	}
	fs, _ := r.attrs.GetFieldSelector()
	ls, _ := r.attrs.GetLabelSelector()
	return digestOf(name), digestOf(r.attrs.GetNamespace(), r.attrs.GetName(), selectors.FieldText(fs), selectors.LabelText(ls))
}

// digestOf tells texts apart, whatever is in them.
func digestOf(texts ...string) digest {
	h := sha256.New()
	var length [8]byte
	for _, t := range texts {
		binary.LittleEndian.PutUint64(length[:], uint64(len(t)))
		_, _ = h.Write(length[:])
		_, _ = io.WriteString(h, t)
	}
	return digest(h.Sum(nil))
}

func (h *history) since(user, what digest, view requestctx.View, current func() (uint64, error)) (uint64, error) {
	known, ok := h.recall(user, what)
	if ok && known.view == view {
		return known.since, nil
	}
	now, err := current() // etcd may take its time: nobody else waits for it
	if err != nil {
		return 0, err
	}
	e := era{view: view, since: now + 1}
	if ok {
		e.floor = now
	}
	h.keep(user, what, e)
	return e.since, nil
}

func (h *history) recall(user, what digest) (era, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	by := h.users[user]
	if by == nil {
		return era{}, false
	}
	known, ok := by.eras[what]
	return known, ok
}

// keep remembers a question.
func (h *history) keep(user, what digest, e era) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == nil || h.kept >= maxKept {
		h.users, h.kept = map[digest]*asked{}, 0
	}
	by := h.users[user]
	if by == nil {
		by = &asked{eras: map[digest]era{}}
		h.users[user] = by
	}
	_, ok := by.eras[what]
	if !ok && len(by.eras) >= maxAsked {
		h.kept -= len(by.eras)
		clear(by.eras)
	}
	if !ok {
		h.kept++
	}
	by.eras[what] = e
}

// from takes a question as known since the revision of a list.
func (h *history) from(user, what digest, view requestctx.View, at uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if by := h.users[user]; by != nil {
		if known, ok := by.eras[what]; ok && known.view == view {
			known.since = min(known.since, max(at, known.floor))
			by.eras[what] = known
		}
	}
}

// older reports whether a watch begins before a revision. One that begins with the state of now does not.
func older(v storage.Versioner, opts storage.ListOptions, since uint64) bool {
	if opts.ResourceVersion == "" || opts.ResourceVersion == "0" || opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return false
	}
	from, err := v.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		from, err = strconv.ParseUint(opts.ResourceVersion, 10, 64)
	}
	return err != nil || from < since
}
