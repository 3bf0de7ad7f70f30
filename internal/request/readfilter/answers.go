package readfilter

import (
	"hash/maphash"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/request/requestctx"
)

// The cache of answers is bounded in bytes, in total and per user (NI-6). What is evicted is asked again.
const (
	// maxViews is the number of rights for which answers are cached, and maxViewsOfUser how many of them one user may
	// add.
	maxViews       = 64
	maxViewsOfUser = 4
	// maxAnswers is how many answers a generation of one right holds; there are two, with some 40 bytes an answer. All
	// of them together take 21 MB.
	maxAnswers = 4096
)

// memory remembers, for each right, which states of objects it shows, so that many watches ask once (RD-14).
type memory struct {
	seeds [2]maphash.Seed

	mu    sync.Mutex
	views map[requestctx.View]*answers
	tick  uint64
}

func newMemory() *memory {
	return &memory{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, views: map[requestctx.View]*answers{}}
}

// of returns what is known about a right. If there are too many, a new one replaces the least recently used one, of the
// same user first.
func (m *memory) of(user digest, view requestctx.View) *answers {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	if a := m.views[view]; a != nil {
		a.used = m.tick
		return a
	}
	var oldest, own requestctx.View
	owned := 0
	for v, a := range m.views {
		if first := m.views[oldest]; first == nil || a.used < first.used {
			oldest = v
		}
		if a.user != user {
			continue
		}
		owned++
		if first := m.views[own]; first == nil || a.used < first.used {
			own = v
		}
	}
	switch {
	case owned >= maxViewsOfUser:
		delete(m.views, own)
	case len(m.views) >= maxViews:
		delete(m.views, oldest)
	}
	a := &answers{user: user, seeds: m.seeds, used: m.tick, young: map[stateKey]bool{}}
	m.views[view] = a
	return a
}

// answers are the answers for one right. There are two generations: the older one is dropped when the younger is full.
type answers struct {
	user  digest
	seeds [2]maphash.Seed
	used  uint64 // guarded by the memory

	mu         sync.Mutex
	young, old map[stateKey]bool
}

// stateKey identifies a state of an object: its uid and resourceVersion, as a hash for which collisions cannot be
// constructed. Zero means none.
type stateKey [2]uint64

// at returns the key of a state.
func (a *answers) at(object metav1.Object) stateKey {
	uid, version := string(object.GetUID()), object.GetResourceVersion()
	if a == nil || uid == "" || version == "" || version == "0" {
		return stateKey{}
	}
	var key stateKey
	for i, seed := range a.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.WriteString(uid)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(version)
		key[i] = h.Sum64()
	}
	return key
}

func (a *answers) recall(key stateKey) (shown, ok bool) {
	if key == (stateKey{}) {
		return false, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if shown, ok = a.young[key]; !ok {
		shown, ok = a.old[key]
	}
	return shown, ok
}

func (a *answers) remember(key stateKey, shown bool) {
	if key == (stateKey{}) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.young) >= maxAnswers {
		a.young, a.old = map[stateKey]bool{}, a.young
	}
	a.young[key] = shown
}
