package enforce

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics of field permissions (FP-12, SV-10).
var (
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
	register.Do(func() { legacyregistry.MustRegister(fieldDecisionsTotal, fieldChecks, fieldSeconds) })
}

// observeFields records a decision on the fields that a write changes.
func observeFields(mode, decision string, checks int, took time.Duration) {
	fieldDecisionsTotal.WithLabelValues(mode, decision).Inc()
	fieldChecks.WithLabelValues(mode).Observe(float64(checks))
	fieldSeconds.WithLabelValues(mode).Observe(took.Seconds())
}
