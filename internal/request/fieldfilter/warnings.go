package fieldfilter

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/warning"
)

// warnings holds the warnings of a write.
type warnings struct {
	mu   sync.Mutex
	said [][2]string
}

// maxWarnings bounds the held warnings.
const maxWarnings = 100

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) < maxWarnings {
		w.said = append(w.said, [2]string{agent, text})
	}
}

// release sends them.
func (w *warnings) release(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.said {
		warning.AddWarning(ctx, one[0], one[1])
	}
}
