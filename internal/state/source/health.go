package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Health watches the sources of policy, for readiness (SV-8): a source that can no longer be read leaves old policy in
// force, which must be visible; it also names objects that can be read but not understood.
type Health struct {
	// Age tracks how old the policy may be. To have a limit, set it before the sources are created.
	Age *Age
	// Clock is the clock of the host; nil if it is trusted. Set it before use.
	Clock Clock

	mu         sync.Mutex
	all        []*source
	unreadable map[string]string // resource and object → why
}

// Clock is a clock that may be in doubt.
type Clock interface {
	// Doubt returns why the clock is in doubt; empty if it is not.
	Doubt() string
}

// NewHealth returns an empty Health.
func NewHealth() *Health { return &Health{Age: NewAge(0), unreadable: map[string]string{}} }

// source is one mirror.
type source struct {
	name   string
	mirror *mirror

	mu       sync.Mutex
	err      error
	version  string // that it had reached when it failed
	failures int    // since then
}

// stuckAfter is how many failures in a row make a source stuck: a single one may be just a closed connection.
const stuckAfter = 2

// watch records the failures of a mirror, which must not be running yet.
func (h *Health) watch(name string, m *mirror) {
	src := &source{name: name, mirror: m}
	h.mu.Lock()
	h.all = append(h.all, src)
	h.mu.Unlock()
	m.failed = src.failed
	m.timeout = h.Age.watchTimeout()
}

// follow asks how recent each source is until the context ends.
func (h *Health) follow(ctx context.Context, newest func(ctx context.Context, source string) (uint64, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, src := range h.all {
		go h.Age.follow(ctx, func() uint64 { return src.mirror.entry().At }, func(ctx context.Context) (uint64, error) { return newest(ctx, src.mirror.name) })
	}
	go h.Age.run(ctx)
}

func (s *source) failed(err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return // it begins again, as it should
	}
	s.note(err, s.mirror.LastSyncResourceVersion())
}

func (s *source) note(err error, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != version {
		s.failures = 0
	}
	s.err, s.version, s.failures = err, version, s.failures+1
}

// Name implements healthz.HealthChecker: upstream shows names to everybody, and reasons at the check's own path.
func (s *source) Name() string { return "policy-source-" + s.name }

// Check implements healthz.HealthChecker.
func (s *source) Check(*http.Request) error { return s.stuck(s.mirror.LastSyncResourceVersion()) }

// stuck returns an error while the source has failed and has made no progress since.
func (s *source) stuck(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures < stuckAfter || s.version != version {
		return nil
	}
	return fmt.Errorf("%s cannot be read, and what was known before stays in force: %w", s.name, s.err)
}

// Checks are the readiness checks of all sources.
func (h *Health) Checks() []healthz.HealthChecker {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []healthz.HealthChecker
	for _, src := range h.all {
		out = append(out, src)
	}
	return append(out, healthz.NamedCheck("policy-age", func(*http.Request) error {
		if why := h.Age.Stale(); why != "" {
			return errors.New(why)
		}
		return nil
	}))
}

// found records that an object cannot be read, or, without a reason, that it can.
func (h *Health) found(resource, object, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if why == "" {
		delete(h.unreadable, resource+" "+object)
		return
	}
	h.unreadable[resource+" "+object] = why
}

// named is how many unreadable objects readiness names.
const named = 20

// notice names unreadable objects; empty if there are none.
func (h *Health) notice() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.unreadable) == 0 {
		return ""
	}
	var list []string
	for object := range h.unreadable {
		list = append(list, object)
	}
	slices.Sort(list)
	more := ""
	if len(list) > named {
		more = fmt.Sprintf(" and %d more", len(list)-named)
	}
	return fmt.Sprintf("%d stored objects cannot be read, and deny or grant nothing: %s%s; repair or delete them", len(list), strings.Join(list[:min(named, len(list))], ", "), more)
}

// Announce adds unreadable objects, and a clock in doubt, to the answer of /readyz. They do not make the server
// unready: it serves correctly, and taking it out would not help. ?verbose and the check of the snapshot show the
// notice in the body; other callers get it as a warning, which kubectl shows.
func (h *Health) Announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if path != "/readyz" && path != "/readyz/policy-snapshot" {
			next.ServeHTTP(w, r)
			return
		}
		notices := h.notices(path == "/readyz")
		for _, n := range notices {
			w.Header().Add("Warning", fmt.Sprintf("299 - %q", n.text))
		}
		next.ServeHTTP(w, r)
		if _, verbose := r.URL.Query()["verbose"]; !verbose && path == "/readyz" {
			return
		}
		for _, n := range notices {
			_, _ = fmt.Fprintf(w, "\n[!]%s: %s\n", n.about, n.text) // the client may have disconnected
		}
	})
}

type notice struct{ about, text string }

// notices returns what /readyz shows in addition to its checks, with the clock if asked for.
func (h *Health) notices(clock bool) (all []notice) {
	text := strings.Trim(strings.Join([]string{h.notice(), h.Age.notice()}, "; "), "; ")
	if text != "" {
		all = append(all, notice{"policy-snapshot", text})
	}
	if h.Clock == nil || !clock {
		return all
	}
	if doubt := h.Clock.Doubt(); doubt != "" {
		all = append(all, notice{"clock", doubt})
	}
	return all
}
