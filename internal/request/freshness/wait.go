package freshness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// Patience is how long a caller waits for newer policy.
	Patience = 2 * time.Second
	// maxWaiters bounds how many requests wait at a time, and maxEach how many of them may be from one user, so one
	// user cannot block the others.
	maxWaiters, maxEach = 256, 32
)

// Waiting lets requests wait for newer policy.
type Waiting struct {
	Store *snapshot.Store
	// Patience replaces the usual one, in tests.
	Patience time.Duration

	revisions atomic.Pointer[Revisions]

	mu      sync.Mutex
	all     int
	waiting map[string]int
}

// Revisions knows how recent the sources are in the storage.
type Revisions interface {
	// Newest returns the revision of a source in the storage.
	Newest(ctx context.Context, source string) (uint64, error)
}

// errUndated is for hosts whose source does not know how recent it is.
var errUndated = errors.New("the policy comes from a source without revisions")

// Follow sets how to find out the revisions of sources. Until then no caller gets newer policy. Only the first call
// counts.
func (w *Waiting) Follow(r Revisions) { w.revisions.CompareAndSwap(nil, &r) }

func (w *Waiting) newest(ctx context.Context, source string) (uint64, error) {
	if r := w.revisions.Load(); r != nil {
		return (*r).Newest(ctx, source)
	}
	return 0, errUndated
}

// Reach returns a snapshot that has everything that the token names, source by source, or an API status that says how
// far the policy of this server is. The returned snapshot is never older than the current one at the moment of the
// call.
func (w *Waiting) Reach(ctx context.Context, user, token string) (*snapshot.Snapshot, error) {
	wanted, err := revision.Parse(token)
	if err != nil {
		return nil, apierrors.NewBadRequest("atLeastRevision: " + err.Error())
	}
	if now := w.Store.Current(); now.Synced && len(lacks(now, wanted)) == 0 {
		return now, nil
	}
	if err := w.enter(user); err != nil {
		return nil, err
	}
	defer w.leave(user)
	patience := w.Patience
	if patience == 0 {
		patience = Patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := false
	for {
		next := w.Store.Next() // before Current, so no snapshot in between is missed
		now := w.Store.Current()
		missing := lacks(now, wanted)
		if now.Synced && len(missing) == 0 {
			return now, nil
		}
		if !asked && now.Synced {
			asked = true
			if err := w.exist(ctx, now, missing); err != nil {
				return nil, err
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, behind(now, missing, "the policy of this server is not there yet; try again")
		}
	}
}

// Renew returns a context with the policy that answers a question, and its revision: the policy of the request or, with
// a token, one that is at least as new as the token says.
func (w *Waiting) Renew(ctx context.Context, atLeast string) (context.Context, string, error) {
	if atLeast == "" {
		if h := requestctx.From(ctx); h != nil && h.Snapshot != nil {
			return ctx, h.Snapshot.Revision.Token(), nil
		}
		now, instant := w.Store.Now()
		return requestctx.At(ctx, now, instant), now.Revision.Token(), nil
	}
	name := ""
	if user, ok := request.UserFrom(ctx); ok {
		name = user.GetName()
	}
	newer, err := w.Reach(ctx, name, atLeast)
	if err != nil {
		return nil, "", err
	}
	instant := requestctx.InstantOf(ctx)
	if instant.IsZero() {
		_, instant = w.Store.Now()
	}
	return requestctx.At(ctx, newer, instant), newer.Revision.Token(), nil
}

func lacks(now *snapshot.Snapshot, wanted revision.Vector) revision.Vector {
	if now.Revision == nil {
		return wanted
	}
	return now.Revision.Vector.Lacks(wanted)
}

// exist refuses revisions that do not exist yet: a caller cannot wait for a change that was never written.
func (w *Waiting) exist(ctx context.Context, now *snapshot.Snapshot, missing revision.Vector) error {
	for _, m := range missing {
		if _, found := entryOf(now, m.Source); !found {
			return behind(now, revision.Vector{m}, "it is not a source of this server's policy")
		}
		newest, err := w.newest(ctx, m.Source)
		switch {
		case err != nil && ctx.Err() != nil:
			return behind(now, missing, "the policy of this server is not there yet; try again")
		case err != nil:
			return apierrors.NewInternalError(fmt.Errorf("the newest revision of %s is not known: %w", m.Source, err))
		case m.At > newest:
			return behind(now, revision.Vector{m}, fmt.Sprintf("the revision does not exist yet: the newest is %d", newest))
		}
	}
	return nil
}

func entryOf(now *snapshot.Snapshot, source string) (revision.Entry, bool) {
	if now.Revision == nil {
		return revision.Entry{}, false
	}
	return now.Revision.Vector.Entry(source)
}

// behind returns a conflict that says which revision the server has reached.
func behind(now *snapshot.Snapshot, missing revision.Vector, why string) error {
	var parts []string
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{}}
	for _, m := range missing {
		at := "unknown"
		if have, found := entryOf(now, m.Source); found {
			at = fmt.Sprint(have.At)
		}
		parts = append(parts, fmt.Sprintf("%s at %s, and not at %d", m.Source, at, m.At))
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: "PolicyRevision", Field: m.Source, Message: at})
	}
	status.Message = fmt.Sprintf("atLeastRevision: %s (%s)", why, strings.Join(parts, "; "))
	return &apierrors.StatusError{ErrStatus: status}
}

// enter takes one of the places for waiting requests.
func (w *Waiting) enter(user string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= maxWaiters || w.waiting[user] >= maxEach {
		return apierrors.NewTooManyRequests("atLeastRevision: too many requests wait for newer policy; try again", 1)
	}
	if w.waiting == nil {
		w.waiting = map[string]int{}
	}
	w.all++
	w.waiting[user]++
	return nil
}

func (w *Waiting) leave(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.waiting[user]--; w.waiting[user] == 0 {
		delete(w.waiting, user)
	}
}
