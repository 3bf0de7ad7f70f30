package readfilter

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	undecidedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "reads", Name: "undecided_total", StabilityLevel: metrics.ALPHA,
		Help: "States of objects that a list or watch did not show because no condition held and one failed, by the reason of the failure: ExpressionFailed where the object lacks what the condition is about.",
	}, []string{"reason"})

	register sync.Once
)

// RegisterMetrics makes the metrics visible. Running it again does nothing.
func RegisterMetrics() { register.Do(func() { legacyregistry.MustRegister(undecidedTotal) }) }

func countUndecided(err error) { undecidedTotal.WithLabelValues(reasonOf(err)).Inc() }
