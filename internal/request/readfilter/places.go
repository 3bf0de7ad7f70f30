package readfilter

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// maxMissed is how many namespaces are remembered that were looked up and did not exist.
const maxMissed = 1000

// places follow the namespaces that conditions look at. When one of them changes, what callers with such a condition
// see in a watch may change (RD-13).
type places struct {
	namespaces authorize.Namespaces

	mu sync.Mutex
	// changes counts the changes that may have affected what a caller sees.
	changes uint64
	// missed are namespaces that were looked up before they were known here; all namespaces, if there are too many.
	missed    map[string]bool
	missedAll bool
	watches   map[*watching]string
}

func newPlaces(namespaces authorize.Namespaces) *places {
	return &places{namespaces: namespaces, missed: map[string]bool{}, watches: map[*watching]string{}}
}

// Namespace implements authorize.Namespaces.
func (p *places) Namespace(name string) (runtime.Object, error) {
	if p.namespaces == nil {
		return nil, errPlaces
	}
	found, err := p.namespaces.Namespace(name)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.missedAll = p.missedAll || len(p.missed) >= maxMissed; !p.missedAll {
			p.missed[name] = true
		}
	}
	return found, err
}

// count returns how often they have changed.
func (p *places) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// Added records that a namespace is known from now on.
func (p *places) Added(name string) {
	p.mu.Lock()
	missed := p.missedAll || p.missed[name]
	p.mu.Unlock()
	if missed {
		p.Changed(name)
	}
}

// Changed records that a namespace has changed or is gone.
func (p *places) Changed(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	delete(p.missed, name)
	for w, in := range p.watches {
		if in == "" || in == name {
			w.end()
		}
	}
}

// add registers a watch in one namespace, or in all of them, that ends when a relevant one has changed since a count.
// It returns a function that removes the watch again.
func (p *places) add(w *watching, in string, since uint64) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[w] = in
	if p.changes != since {
		w.end()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, w)
	}
}

// view returns what a caller sees as long as no namespace changes on which that depends.
func (p *places) view(n *requestctx.Narrowing) requestctx.View {
	view := n.View()
	if n.Each == nil || !n.Each.LooksAtNamespace() {
		return view
	}
	return requestctx.View(digestOf(string(view[:]), strconv.FormatUint(p.count(), 10)))
}
