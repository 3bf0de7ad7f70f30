package timekeeper

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

var (
	trusted = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "proviso", Subsystem: "clock", Name: "trusted", StabilityLevel: metrics.ALPHA,
		Help: "1 while the server trusts its clock; 0 while it is behind an instant that was seen before, or off that of a replica: role bindings and grants that begin or end then allow nothing, and deny.",
	})

	register = sync.OnceFunc(func() { legacyregistry.MustRegister(trusted) })
)

// Teller reports something about an object to people.
type Teller interface {
	Warn(obj runtime.Object, reason, message string)
	Inform(obj runtime.Object, reason, message string)
}

// Report reports, until the context ends, when the clock comes into doubt and when it is trusted again: in the log, in
// a metric, and in events of a namespace.
func (k *Keeper) Report(ctx context.Context, namespace string, to Teller) {
	register()
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	doubted := false
	for ctx.Err() == nil {
		why := k.Doubt()
		trusted.Set(0)
		if why == "" {
			trusted.Set(1)
		}
		switch compared := k.known.Load().compared; {
		case !compared: // it has just begun
		case why != "" && !doubted:
			klog.InfoS("The clock is in doubt", "reason", why)
			to.Warn(about, "ClockInDoubt", why)
		case why == "" && doubted:
			klog.InfoS("The clock is trusted again")
			to.Inform(about, "ClockTrusted", "the clock of this server is trusted again")
		}
		doubted = why != "" && k.known.Load().compared
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}
