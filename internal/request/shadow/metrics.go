package shadow

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"proviso.dev/proviso/internal/engine/shadowrule"
)

// decisionsTotal has a series for each rule that would have changed something, which is dropped with the rule: there
// are never more series than rules in the recorder.
var decisionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "proviso", Subsystem: "shadow", Name: "flips_total", StabilityLevel: metrics.ALPHA,
	Help: "Requests that a rule which is not enforced would have answered differently, by the rule and what it would have answered: Allow, Deny or Undecided.",
}, []string{"rule", "would"})

var register sync.Once

// RegisterMetrics makes the metrics visible. Running it again does nothing.
func RegisterMetrics() {
	register.Do(func() { legacyregistry.MustRegister(decisionsTotal) })
}

func observe(rule shadowrule.Rule, would Answer) {
	decisionsTotal.WithLabelValues(rule.ID.String(), string(would)).Inc()
}

func forget(rule shadowrule.Rule) {
	for _, would := range []Answer{Allow, Deny, Undecided} {
		decisionsTotal.Delete(map[string]string{"rule": rule.ID.String(), "would": string(would)})
	}
}
