package readfilter

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// maxCallers bounds what is remembered of one resource.
const maxCallers = 10_000

// history remembers since which revision each caller's selectors are what they are. Who watches from an older one has
// listed by others, and would keep what he may no longer see: he has to list again (RD-7). Of a caller who is not
// known, it is the revision at which the rules were first seen as they are.
type history struct {
	mu      sync.Mutex
	rules   *ruleset.Index
	served  *snapshot.Served
	begin   uint64
	callers map[string]era
}

type era struct {
	selectors string
	since     uint64
}

// since is the revision from which on the caller's selectors hold.
func (s *store) since(ctx context.Context, r *reading) (uint64, error) {
	n := r.holder.Get(requestctx.Request).Narrowing()
	return s.history.since(r.holder.Snapshot, caller(r), n.Box, func() (uint64, error) { return s.GetCurrentResourceVersion(ctx) })
}

// caller is who asks for what, as he asked for it.
func caller(r *reading) string {
	name := ""
	if u := r.attrs.GetUser(); u != nil {
		name = u.GetName()
	}
	fs, _ := r.attrs.GetFieldSelector()
	ls, _ := r.attrs.GetLabelSelector()
	return strings.Join([]string{name, r.attrs.GetNamespace(), r.attrs.GetName(), selectors.FieldText(fs), selectors.LabelText(ls)}, "\x00")
}

func (h *history) since(snap *snapshot.Snapshot, who string, box selectors.Box, current func() (uint64, error)) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rules != snap.Rules || h.served != snap.Served || h.callers == nil || len(h.callers) >= maxCallers {
		now, err := current()
		if err != nil {
			return 0, err
		}
		h.rules, h.served, h.begin = snap.Rules, snap.Served, now
		if h.callers == nil || len(h.callers) >= maxCallers {
			h.callers = map[string]era{}
		}
	}
	selectors := box.String()
	known, ok := h.callers[who]
	switch {
	case !ok:
		known = era{selectors, h.begin}
	case known.selectors != selectors:
		now, err := current()
		if err != nil {
			return 0, err
		}
		known = era{selectors, now}
	}
	h.callers[who] = known
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
