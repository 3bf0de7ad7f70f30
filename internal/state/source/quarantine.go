package source

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// quarantinedObjects counts objects that cannot be understood (SV-8, SV-10).
var (
	quarantinedObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "policy", Name: "quarantined_objects", StabilityLevel: metrics.ALPHA,
		Help: "Stored objects that this version does not understand, by resource. They grant nothing; deny rules and protections in them hold without conditions.",
	}, []string{"resource"})

	registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(quarantinedObjects) })
)

// watchUnreadable reports objects that stand for unreadable bytes, for kinds that are not ours.
func watchUnreadable(resource string, objects snapshot.Objects, health *Health, why func(runtime.Object) string) error {
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
			klog.ErrorS(nil, "An object cannot be read and grants nothing; write it again or delete it", "resource", resource, "object", key, "reason", reason)
		}
		health.found(resource, key, reason)
	}
	_, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(obj, false) }, UpdateFunc: func(_, obj any) { note(obj, false) }, DeleteFunc: func(obj any) { note(obj, true) },
	})
	return err
}

// watchQuarantined logs every object of the kind that this version does not understand, when it appears and when it is
// gone, counts them, and writes an event about each. It runs in the handlers, so it needs no goroutine.
func watchQuarantined(resource string, objects snapshot.Objects, health *Health, warner Warner) error {
	registerMetrics()
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
			why, unreadable = policycodec.Quarantined(o), policycodec.CannotRead(o)
		}
		health.found(resource, key, unreadable)
		switch {
		case why == "" && bad[key] != "":
			delete(bad, key)
			klog.InfoS("No longer quarantined", "resource", resource, "object", key)
		case why != "" && bad[key] != why:
			bad[key] = why
			klog.ErrorS(nil, "Quarantined an object: it grants nothing, and denies and protects without conditions; upgrade the server or delete the object", "resource", resource, "object", key, "reason", why)
			if o, ok := obj.(runtime.Object); ok && warner != nil {
				warner.Warn(o, "Quarantined", "This version of the server does not understand the object: it grants nothing, and denies and protects without conditions. Upgrade the server, or delete the object.")
			}
		}
		gauge.Set(float64(len(bad)))
	}
	_, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(obj, false) }, UpdateFunc: func(_, obj any) { note(obj, false) }, DeleteFunc: func(obj any) { note(obj, true) },
	})
	return err
}
