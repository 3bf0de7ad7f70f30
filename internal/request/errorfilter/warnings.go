package errorfilter

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/warning"
)

// maxWarnings bounds what is kept: upstream drops warnings beyond 4 KiB of text.
const maxWarnings = 256

// warnings holds the warnings of a response that is held. Upstream's own recorder is further out and would send them
// past the filter.
type warnings struct {
	mu   sync.Mutex
	out  context.Context
	held [][2]string
}

var _ warning.Recorder = (*warnings)(nil)

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.out != nil:
		warning.AddWarning(w.out, agent, text)
	case len(w.held) < maxWarnings:
		w.held = append(w.held, [2]string{agent, text})
	}
}

// release sends the held warnings, and passes on later ones.
func (w *warnings) release(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.held {
		warning.AddWarning(ctx, one[0], one[1])
	}
	w.held, w.out = nil, ctx
}
