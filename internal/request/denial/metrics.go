package denial

import (
	"strings"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// maxRules bounds the series that users can create by writing rules.
const maxRules = 200

var (
	total = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Name: "refusals_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests that were refused, by stage and by the rule that refused them: empty if nothing allowed them, other for all rules beyond the first 200.",
	}, []string{"stage", "rule"})

	register = sync.OnceFunc(func() { legacyregistry.MustRegister(total) })

	mu   sync.Mutex
	seen = map[string]bool{}
)

func count(by By) {
	register()
	total.WithLabelValues(by.Stage, bounded(strings.Join(by.Rules, ", "))).Inc()
}

func bounded(rule string) string {
	mu.Lock()
	defer mu.Unlock()
	if !seen[rule] {
		if len(seen) >= maxRules {
			return "other"
		}
		seen[rule] = true
	}
	return rule
}
