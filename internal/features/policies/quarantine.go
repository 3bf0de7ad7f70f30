package policies

import (
	"fmt"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// quarantinedRules counts what is quarantined (SV-8, SV-10).
var (
	quarantinedRules = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "policy", Name: "quarantined_rules", StabilityLevel: metrics.ALPHA,
		Help: "Rules that do not compile, by effect: allow rules then grant nothing, deny rules deny without their condition.",
	}, []string{"effect"})

	registerQuarantine = sync.OnceFunc(func() { legacyregistry.MustRegister(quarantinedRules) })
)

// quarantineReporter logs each rule that does not compile once, writes an event about its policy, and counts them.
type quarantineReporter struct {
	known map[string]bool
	// tell writes an event about the policy of a namespace; nil if nobody is told.
	tell func(namespace, reason, message string)
}

func (q *quarantineReporter) report(problems []ruleset.Problem) {
	registerQuarantine()
	count := map[string]int{"allow": 0, "deny": 0}
	now := map[string]bool{}
	for _, p := range problems {
		if p.Binding != (ruleset.BindingRef{}) || p.Role == (ruleset.RoleRef{}) {
			continue
		}
		if p.Deny {
			count["deny"]++
		} else {
			count["allow"]++
		}
		text := p.Error()
		now[text] = true
		if !q.known[text] {
			klog.ErrorS(p.Err, "Quarantined a rule", "role", p.Role.String(), "rule", p.Rule, "effect", text)
			if q.tell != nil && p.Role.Kind == ruleset.PolicyRole {
				q.tell(p.Role.Namespace, "RuleQuarantined", quarantineMessage(p))
			}
		}
	}
	q.known = now
	for effect, n := range count {
		quarantinedRules.WithLabelValues(effect).Set(float64(n))
	}
}

// quarantineMessage is visible to everyone who may read events, so it does not quote the rule.
func quarantineMessage(p ruleset.Problem) string {
	effect := "it grants nothing"
	if p.Deny {
		effect = "it denies without its condition"
	}
	return fmt.Sprintf("Rule %d of role %q does not compile and is quarantined: %s. The condition RulesCompiled of the policy says why.", p.Rule, p.Role.Name, effect)
}
