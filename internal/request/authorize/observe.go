package authorize

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics of conditional decisions, in authorization and in admission (CA-21, SV-10). All our metrics begin with
// proviso_.
var (
	conditionalTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "authorization", Name: "conditional_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests that were let through to admission on a condition, by the authorizer whose conditions they are and the types of the conditions.",
	}, []string{"authorizer", "type"})
	failuresTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "authorization", Name: "condition_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Decisions in which a condition failed to evaluate, and so failed closed, by the authorizer that decided; empty if none did.",
	}, []string{"authorizer"})
	enforcedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "enforcement", Name: "decisions_total", StabilityLevel: metrics.ALPHA,
		Help: "Conditional decisions that were resolved in admission, by authorizer, types of the conditions, decision and whether a condition failed.",
	}, []string{"authorizer", "type", "decision", "failed"})
	enforcedSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "proviso", Subsystem: "enforcement", Name: "duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long resolving a conditional decision took, by authorizer and types of the conditions.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 10),
	}, []string{"authorizer", "type"})

	register sync.Once
)

// RegisterMetrics makes the metrics visible. Running it again does nothing.
func RegisterMetrics() {
	register.Do(func() { legacyregistry.MustRegister(conditionalTotal, failuresTotal, enforcedTotal, enforcedSeconds) })
}

// maxTypeLabels bounds the series that webhooks can create by inventing types.
const maxTypeLabels = 64

// labels is a set of label values that does not grow beyond a bound.
type labels struct {
	mu   sync.Mutex
	seen map[string]bool
}

var typeLabels = labels{seen: map[string]bool{}}

func (l *labels) bounded(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[value] {
		if len(l.seen) >= maxTypeLabels {
			return "other"
		}
		l.seen[value] = true
	}
	return value
}

// countConditional counts a request that passed on a condition of the given types.
func countConditional(authorizerName, types string) {
	conditionalTotal.WithLabelValues(authorizerName, typeLabels.bounded(types)).Inc()
}

// countFailure counts a decision in which a condition failed.
func countFailure(authorizerName string) { failuresTotal.WithLabelValues(authorizerName).Inc() }

// startSpan begins a span below that of the request. The span is nil, and costs nothing, if the request has none or
// does not record it.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer("proviso.dev/proviso").Start(ctx, name)
}
