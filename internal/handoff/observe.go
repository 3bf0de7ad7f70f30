package handoff

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics of the two stages that the hand-over connects (CA-21, SV-10). All of ours begin with proviso_.
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
	fieldDecisionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "field_permissions", Name: "decisions_total", StabilityLevel: metrics.ALPHA,
		Help: "Writes whose changed fields were looked at, by mode (general: exclusive fields only; granular: every field) and decision.",
	}, []string{"mode", "decision"})
	fieldChecks = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "proviso", Subsystem: "field_permissions", Name: "checks", StabilityLevel: metrics.ALPHA,
		Help:    "How many permissions a write was checked for, by mode.",
		Buckets: []float64{0, 1, 2, 3, 5, 8, 16, 32},
	}, []string{"mode"})
	fieldSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "proviso", Subsystem: "field_permissions", Name: "duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long looking at the changed fields of a write took, by mode.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 10),
	}, []string{"mode"})

	register sync.Once
)

// RegisterMetrics makes the metrics visible. Running it again does nothing.
func RegisterMetrics() {
	register.Do(func() {
		legacyregistry.MustRegister(conditionalTotal, failuresTotal, enforcedTotal, enforcedSeconds, fieldDecisionsTotal, fieldChecks, fieldSeconds)
	})
}

// CountConditional counts a request that passed on a condition of the given types.
func CountConditional(authorizerName, types string) {
	conditionalTotal.WithLabelValues(authorizerName, typeLabels.bounded(types)).Inc()
}

// maxTypeLabels bounds the series that webhooks can make by inventing types.
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

// CountFailure counts a decision in which a condition failed.
func CountFailure(authorizerName string) { failuresTotal.WithLabelValues(authorizerName).Inc() }

// ObserveFields records a decision on the fields that a write changes.
func ObserveFields(mode, decision string, checks int, took time.Duration) {
	fieldDecisionsTotal.WithLabelValues(mode, decision).Inc()
	fieldChecks.WithLabelValues(mode).Observe(float64(checks))
	fieldSeconds.WithLabelValues(mode).Observe(took.Seconds())
}

// Observe resolves a pending decision, measures it and, if the request is traced, makes a span of it.
func Observe(ctx context.Context, p Pending, data authorizer.ConditionsData) Outcome {
	ctx, span := StartSpan(ctx, "proviso.enforce")
	begin := time.Now()
	out := p.Resolve(ctx, data)
	failed := "false"
	if out.Detail != nil {
		failed = "true"
		CountFailure(out.Authorizer)
	}
	kind := typeLabels.bounded(out.Types)
	enforcedTotal.WithLabelValues(out.Authorizer, kind, out.Decision.String(), failed).Inc()
	enforcedSeconds.WithLabelValues(out.Authorizer, kind).Observe(time.Since(begin).Seconds())
	if span != nil {
		span.SetAttributes(attribute.String("authorizer", out.Authorizer), attribute.String("decision", out.Decision.String()), attribute.StringSlice("conditions", out.Conditions))
		span.End()
	}
	return out
}

// StartSpan begins a span below that of the request. Without one, or if it is not recorded, it costs nothing and the span is
// nil.
func StartSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer("proviso.dev/proviso").Start(ctx, name)
}
