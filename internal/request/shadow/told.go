package shadow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"proviso.dev/proviso/internal/engine/shadowrule"
)

// Told gathers what the event of a request and its caller are to be told, for a host that is asked by the server which
// has both.
type Told struct {
	mu          sync.Mutex
	warnings    []string
	annotations map[string]string
}

type toldKey struct{}

// Tell lets what is noted about a request be gathered.
func Tell(ctx context.Context) (context.Context, *Told) {
	t := &Told{annotations: map[string]string{}}
	return context.WithValue(ctx, toldKey{}, t), t
}

// take gathers what is noted; t may be nil.
func (t *Told) take(id shadowrule.ID, value, text string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if key := webhookKey(id); t.annotations[key] == "" { // a request can be looked at more than once
		t.annotations[key] = value
	}
	if text != "" && !slices.Contains(t.warnings, text) {
		t.warnings = append(t.warnings, text)
	}
}

// Warnings are for the caller.
func (t *Told) Warnings() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.warnings)
}

// Annotations are for the event, by keys as an admission webhook may choose them; nil if there are none.
func (t *Told) Annotations() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.annotations) == 0 {
		return nil
	}
	return t.annotations
}

// maxKey is how long the key of an annotation may be.
const maxKey = 63

// webhookKey is the key of a rule. The server puts the name of the webhook and a slash in front of it. What is too
// long, or has what no key may have, ends in what tells it from others.
func webhookKey(id shadowrule.ID) string {
	text := "shadow." + id.String()
	key := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, text)
	if key == text && len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(text))
	return key[:min(len(key), maxKey-9)] + "-" + hex.EncodeToString(sum[:4])
}
