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

// Collected is what the audit event of a request and its caller should be told. It is for a host that answers a server,
// which has the event and the caller.
type Collected struct {
	mu          sync.Mutex
	warnings    []string
	annotations map[string]string
}

var _ requestctx.Collector = (*Collected)(nil)

// Collect starts collecting what is recorded about a request.
func Collect(ctx context.Context) (context.Context, *Collected) {
	c := &Collected{annotations: map[string]string{}}
	return requestctx.WithCollector(ctx, c), c
}

// Collect implements requestctx.Collector.
func (c *Collected) Collect(id shadowrule.ID, value, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := webhookKey(id); c.annotations[key] == "" { // a request can be evaluated more than once
		c.annotations[key] = value
	}
	if text != "" && !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// Warnings returns the warnings for the caller.
func (c *Collected) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Annotations returns the annotations for the event, with keys that an admission webhook may use; nil if there are
// none.
func (c *Collected) Annotations() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.annotations) == 0 {
		return nil
	}
	return c.annotations
}

// maxKey is the maximum length of the key of an annotation.
const maxKey = 63

// webhookKey returns the key for a rule. The server prefixes it with the name of the webhook and a slash. A key that
// would be too long or has invalid characters gets a suffix that makes it unique.
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
