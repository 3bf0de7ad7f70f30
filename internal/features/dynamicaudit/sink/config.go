package sink

import (
	"errors"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// Config configures a Router. Zero values mean the defaults, except for Dir.
type Config struct {
	// Dir is the directory of the spools, with one subdirectory per sink. It must not be shared with another server.
	Dir string
	// Static is the audit that the command line configures, if any.
	Static *Static
	// Cutter cuts events to what sinks of namespaces may see; nil gives them none. Allow is where these sinks may be.
	Cutter Cutter
	Allow  Allow
	// Redactor removes from events what sinks must not get; nil removes nothing. The static backend gets them whole.
	Redactor Redactor
	// OwnAgent is the user agent of requests of the server itself that sinks do not get; empty if they get all.
	OwnAgent string
	// Clock tells the time by which sinks end; that of the machine by default, which is trusted.
	Clock Clock
	// Services resolves sinks that are services of the cluster. Without it they stay inactive.
	Services ServiceResolver

	// SpoolBytes bounds the spool of each sink; 256 MiB by default.
	SpoolBytes int64
	// Fsync waits for stable storage before a response ends.
	Fsync bool
	// MaxEventBytes is the largest event that is kept whole; larger ones lose their bodies. 8 MiB by default. A spool
	// keeps none that is larger than one of its segments, so for sinks of namespaces it is less.
	MaxEventBytes int
	// BatchEvents and BatchBytes bound what is sent at once; 4096 and 4 MiB by default.
	BatchEvents int
	BatchBytes  int
	// Timeout bounds an answer of a sink; 30 s by default.
	Timeout time.Duration
	// MinBackoff and MaxBackoff bound the time between attempts; 500 ms and 30 s by default.
	MinBackoff, MaxBackoff time.Duration
	// FlushTimeout is how long Shutdown tries to deliver what waits; 10 s by default.
	FlushTimeout time.Duration
	// MaxTails bounds the subscriptions; 16 by default.
	MaxTails int

	// AllowInsecure lets sinks use http, and be at loopback and link-local addresses.
	AllowInsecure bool
	// TracerProvider makes the spans of deliveries; none by default.
	TracerProvider oteltrace.TracerProvider

	// createSegment replaces the creation of segments in tests of full disks.
	createSegment func(path string) (segmentFile, error)
}

// Redactor removes from events what a view does not show. It returns another event, or the same one if there is nothing
// to remove.
type Redactor interface {
	Redact(*auditinternal.Event, View) *auditinternal.Event
}

// Limits of the size of a segment. A sixteenth of the spool is dropped at a time when it is full.
const (
	segmentsPerSpool = 16
	minSegmentBytes  = 64 << 10
	maxSegmentBytes  = 16 << 20
)

func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("audit spool: no directory is configured")
	}
	defaulted(&c.SpoolBytes, 256<<20)
	defaulted(&c.MaxEventBytes, 8<<20)
	defaulted(&c.BatchEvents, 4096)
	defaulted(&c.BatchBytes, 4<<20)
	defaulted(&c.Timeout, 30*time.Second)
	defaulted(&c.MinBackoff, 500*time.Millisecond)
	defaulted(&c.MaxBackoff, 30*time.Second)
	defaulted(&c.FlushTimeout, 10*time.Second)
	defaulted(&c.MaxTails, 16)
	if c.SpoolBytes < 4*minSegmentBytes {
		return errors.New("audit spool: is smaller than 256 KiB")
	}
	c.MaxEventBytes = min(c.MaxEventBytes, int(c.segmentBytes())-headerSize)
	if c.Static != nil && (c.Static.Evaluator == nil || c.Static.Backend == nil) {
		c.Static = nil // as upstream: a policy without a backend, or the other way round, audits nothing
	}
	if c.Clock == nil {
		c.Clock = machineClock{}
	}
	if c.TracerProvider == nil {
		c.TracerProvider = noop.NewTracerProvider()
	}
	return nil
}

func defaulted[T comparable](v *T, def T) {
	if zero := *new(T); *v == zero {
		*v = def
	}
}

func (c *Config) segmentBytes() int64 {
	return min(max(c.SpoolBytes/segmentsPerSpool, minSegmentBytes), maxSegmentBytes)
}

func (c *Config) spool(dir string) spoolConfig {
	return spoolConfig{dir: dir, maxBytes: c.SpoolBytes, segmentBytes: c.segmentBytes(), fsync: c.Fsync, create: c.createSegment}
}

func (c *Config) targets() targetConfig {
	return targetConfig{allowInsecure: c.AllowInsecure, services: c.Services, timeout: c.Timeout, allow: c.Allow}
}
