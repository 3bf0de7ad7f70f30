package authzwebhook

import (
	"context"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Calls for SubjectAccessReviews are counted by upstream's metrics. These are about conditions (CA-21).
var (
	cacheLookups = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "proviso_authorization_webhook_cache_lookups_total", StabilityLevel: metrics.ALPHA,
		Help: "Lookups of a webhook authorizer's answer in the cache, by whether it was there.",
	}, []string{"name", "result"})

	evaluations = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "proviso_authorization_webhook_conditions_evaluation_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time to evaluate a set of conditions that a webhook authorizer answered with, by place (process or endpoint) and result.",
		Buckets: []float64{0.0001, 0.001, 0.01, 0.1, 1, 10},
	}, []string{"name", "place", "result"})

	conditionsCalls = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "proviso_authorization_webhook_conditions_calls_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls of the conditions endpoint of a webhook authorizer, by result: success, error, timeout or canceled.",
	}, []string{"name", "result"})

	registerOnce sync.Once
)

func registerMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(cacheLookups, evaluations, conditionsCalls) })
}

func countCache(ctx context.Context, name string, hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	cacheLookups.WithContext(ctx).WithLabelValues(name, result).Inc()
}

func observe(ctx context.Context, name, place, result string, start time.Time) {
	evaluations.WithContext(ctx).WithLabelValues(name, place, result).Observe(time.Since(start).Seconds())
}
