package shadow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Collected is what the event of a request and its caller are to be told, for a host that is asked by the server which
// has both.
type Collected struct {
	mu          sync.Mutex
	warnings    []string
	annotations map[string]string
}

var _ requestctx.Collector = (*Collected)(nil)

// Collect has what is noted about a request collected.
func Collect(ctx context.Context) (context.Context, *Collected) {
	c := &Collected{annotations: map[string]string{}}
	return requestctx.WithCollector(ctx, c), c
}

// Collect implements requestctx.Collector.
func (c *Collected) Collect(id shadowrule.ID, value, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := webhookKey(id); c.annotations[key] == "" { // a request can be looked at more than once
		c.annotations[key] = value
	}
	if text != "" && !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// Warnings are for the caller.
func (c *Collected) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Annotations are for the event, by keys as an admission webhook may choose them; nil if there are none.
func (c *Collected) Annotations() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.annotations) == 0 {
		return nil
	}
	return c.annotations
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
