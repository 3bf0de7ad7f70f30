package server

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/ruleset"
)

// Metrics of what is quarantined (SV-8, SV-10).
var (
	quarantinedObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "policy", Name: "quarantined_objects", StabilityLevel: metrics.ALPHA,
		Help: "Stored objects that this version does not understand, by resource. They grant nothing; deny rules and protections in them hold without conditions.",
	}, []string{"resource"})
	quarantinedRules = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "policy", Name: "quarantined_rules", StabilityLevel: metrics.ALPHA,
		Help: "Rules that do not compile, by effect: allow rules then grant nothing, deny rules deny without their condition.",
	}, []string{"effect"})

	registerQuarantine = sync.OnceFunc(func() { legacyregistry.MustRegister(quarantinedObjects, quarantinedRules) })
)

// quarantineReporter logs each rule that does not compile once, tells those who look at its policy, and counts them.
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

// quarantineMessage is for everybody who may read events: it does not quote the rule.
func quarantineMessage(p ruleset.Problem) string {
	effect := "it grants nothing"
	if p.Deny {
		effect = "it denies without its condition"
	}
	return fmt.Sprintf("Rule %d of role %q does not compile and is quarantined: %s. The condition RulesCompiled of the policy says why.", p.Rule, p.Role.Name, effect)
}

// watchUnreadable names what stands for bytes that cannot be read, for kinds that are not ours.
func watchUnreadable(resource string, informer cache.SharedIndexInformer, sources *sources, why func(runtime.Object) string) error {
	note := func(obj any, gone bool) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return
		}
		reason := ""
		if o, ok := obj.(runtime.Object); ok && !gone {
			reason = why(o)
		}
		if reason != "" {
			klog.ErrorS(nil, "An object cannot be read and grants nothing; write it anew or delete it", "resource", resource, "object", key, "reason", reason)
		}
		sources.found(resource, key, reason)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(obj, false) }, UpdateFunc: func(_, obj any) { note(obj, false) }, DeleteFunc: func(obj any) { note(obj, true) },
	})
	return err
}

// watchQuarantined logs every object of the kind that this version does not understand, when it comes and when it goes, and
// counts them, with an event for those who look at it. It lives in the informer's handlers, so that it needs no goroutine.
func watchQuarantined(resource string, informer cache.SharedIndexInformer, sources *sources, tell func(obj runtime.Object, reason, message string)) error {
	registerQuarantine()
	gauge := quarantinedObjects.WithLabelValues(resource)
	gauge.Set(0)
	bad := map[string]string{} // handlers of one registration run one after the other
	note := func(obj any, gone bool) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return
		}
		why, unreadable := "", ""
		if o, ok := obj.(runtime.Object); ok && !gone {
			why, unreadable = registry.Quarantined(o), registry.CannotRead(o)
		}
		sources.found(resource, key, unreadable)
		switch {
		case why == "" && bad[key] != "":
			delete(bad, key)
			klog.InfoS("No longer quarantined", "resource", resource, "object", key)
		case why != "" && bad[key] != why:
			bad[key] = why
			klog.ErrorS(nil, "Quarantined an object: it grants nothing, and denies and protects without conditions; upgrade the server or delete the object", "resource", resource, "object", key, "reason", why)
			if o, ok := obj.(runtime.Object); ok {
				tell(o, "Quarantined", "This version of the server does not understand the object: it grants nothing, and denies and protects without conditions. Upgrade the server, or delete the object.")
			}
		}
		gauge.Set(float64(len(bad)))
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(obj, false) }, UpdateFunc: func(_, obj any) { note(obj, false) }, DeleteFunc: func(obj any) { note(obj, true) },
	})
	return err
}
