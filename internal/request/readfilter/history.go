package readfilter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"sync"

	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
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
// another right, and would keep what they may no longer see: they have to list again (RD-7). Of a caller who is not
// known, it is the revision at which the rules were first seen as they are. A user who asks in more ways than are kept
// lists again; nobody else does.
type history struct {
	mu     sync.Mutex
	rules  *ruleset.Index
	served *snapshot.Served
	begin  uint64
	users  map[digest]*asked
	kept   int
}

// digest stands for a text that a caller chose.
type digest [sha256.Size]byte

// asked is what one user asked for.
type asked struct {
	// begin holds for what is not remembered.
	begin uint64
	eras  map[digest]era
}

type era struct {
	view  requestctx.View
	since uint64
}

// since is the revision from which on the caller's right holds.
func (s *store) since(ctx context.Context, r *reading) (uint64, error) {
	n := r.holder.Get(requestctx.Request).Narrowing()
	user, what := caller(r)
	return s.history.since(r.holder.Snapshot, user, what, s.stores.places.view(n), func() (uint64, error) { return s.GetCurrentResourceVersion(ctx) })
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

func (h *history) since(snap *snapshot.Snapshot, user, what digest, view requestctx.View, current func() (uint64, error)) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rules != snap.Rules || h.served != snap.Served || h.users == nil || h.kept >= maxKept {
		now, err := current()
		if err != nil {
			return 0, err
		}
		h.rules, h.served, h.begin = snap.Rules, snap.Served, now
		if h.users == nil || h.kept >= maxKept {
			h.users, h.kept = map[digest]*asked{}, 0
		}
	}
	by := h.users[user]
	switch {
	case by == nil:
		by = &asked{eras: map[digest]era{}}
		h.users[user] = by
	case len(by.eras) >= maxAsked:
		if _, ok := by.eras[what]; !ok {
			now, err := current()
			if err != nil {
				return 0, err
			}
			h.kept -= len(by.eras)
			by.begin, by.eras = now, map[digest]era{}
		}
	}
	known, ok := by.eras[what]
	switch {
	case !ok:
		h.kept++
		known = era{view, max(h.begin, by.begin)}
	case known.view != view:
		now, err := current()
		if err != nil {
			return 0, err
		}
		known = era{view, now}
	}
	by.eras[what] = known
	return known.since, nil
}

// older tells whether a watch begins before a revision. One that begins with the state of now does not.
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
