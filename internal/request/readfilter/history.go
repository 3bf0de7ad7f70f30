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

// The history of one resource is bounded in bytes and per user (NI-6): everything that a caller chooses, such as a
// selector of a megabyte, is stored as a hash.
const (
	// maxAsked is how many questions of one user are remembered. Beyond it that user lists again.
	maxAsked = 1000
	// maxKept is the total for all users: some ten megabytes. Reaching it takes a hundred users who keep changing their
	// questions.
	maxKept = 100_000
)

// history records the revision since which each caller sees what they see. A client that watches from an older revision
// has listed with a different right, and would keep objects that it may no longer see: it has to list again (RD-7). If
// nothing is known, because the caller has not listed here or has asked too many different questions, an earlier
// revision cannot be watched. That does not reveal whether the policy or anything else, perhaps of other users, has
// changed in the meantime (NI-1).
type history struct {
	mu    sync.Mutex
	users map[digest]*asked
	kept  int
}

// digest is the hash of a text that a caller chose.
type digest [sha256.Size]byte

// asked is what one user asked for.
type asked struct {
	eras map[digest]era
}

type era struct {
	view  requestctx.View
	since uint64
	// floor is the revision of a change of the right: an older list does not make the right older.
	floor uint64
}

// since returns the revision since which the caller's right holds, and what they see with it.
func (s *store) since(ctx context.Context, r *reading) (since uint64, view requestctx.View, err error) {
	view = s.stores.places.view(r.holder.Get(requestctx.Request).Narrowing())
	user, what := caller(r)
	since, err = s.history.since(user, what, view, func() (uint64, error) { return s.GetCurrentResourceVersion(ctx) })
	return since, view, err
}

// listed records the revision of a list, from which its caller can watch.
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

// caller returns who asks, and for what, in their own words.
func caller(r *reading) (user, what digest) {
	name := ""
	if u := r.attrs.GetUser(); u != nil {
		name = u.GetName()
	}
	fs, _ := r.attrs.GetFieldSelector()
	ls, _ := r.attrs.GetLabelSelector()
	return digestOf(name), digestOf(r.attrs.GetNamespace(), r.attrs.GetName(), selectors.FieldText(fs), selectors.LabelText(ls))
}

// digestOf returns different hashes for different lists of texts, whatever they contain.
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
	now, err := current() // without the lock: etcd may be slow
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

// keep stores a question.
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

// from records a question as known since the revision of a list.
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

// older reports whether a watch begins before a revision. One that begins with the current state does not.
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
