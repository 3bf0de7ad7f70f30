package snapshot

import (
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"

	"proviso.dev/proviso/internal/engine/expr"
)

// Warmer compiles the stored expressions in the background, several at a time, so requests find them ready and status
// can show which do not compile. Nothing waits for it: an expression that is needed earlier is compiled by the request
// that needs it, and until then no decision depends on it.
type Warmer struct {
	cache   *expr.Cache
	wake    chan struct{}
	broken  []func()
	workers int
	// reported are the texts that are known not to compile, so each is reported once even if the cache evicts it.
	reported map[uint64]bool
	seed     maphash.Seed
}

// maxReported bounds the texts in reported.
const maxReported = 1 << 16

// NewWarmer returns a warmer of a cache.
func NewWarmer(cache *expr.Cache) *Warmer {
	return &Warmer{cache: cache, wake: make(chan struct{}, 1), workers: max(1, runtime.GOMAXPROCS(0)/2),
		reported: map[uint64]bool{}, seed: maphash.MakeSeed()}
}

// OnBroken registers a function to call after expressions were found that do not compile. Call it before Run.
func (w *Warmer) OnBroken(f func()) { w.broken = append(w.broken, f) }

// Wake tells the warmer that there may be new expressions. It never blocks.
func (w *Warmer) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run compiles until stop is closed.
func (w *Warmer) Run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-w.wake:
		}
		if w.compile(stop) {
			for _, f := range w.broken {
				f()
			}
		}
	}
}

// compile compiles the current rules and reports whether anything new does not compile.
func (w *Warmer) compile(stop <-chan struct{}) bool {
	pending := w.cache.Pending()
	var next atomic.Int64
	broken := make([]bool, len(pending))
	var wg sync.WaitGroup
	for range min(w.workers, len(pending)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pending) || closed(stop) {
					return
				}
				_, issues := pending[i].Program()
				broken[i] = len(issues) > 0
			}
		})
	}
	wg.Wait()
	found := false
	for i, d := range pending {
		if text := maphash.String(w.seed, d.Source()); broken[i] && !w.reported[text] {
			if len(w.reported) >= maxReported {
				clear(w.reported)
			}
			w.reported[text], found = true, true
		}
	}
	return found
}

func closed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}
