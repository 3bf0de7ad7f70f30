package sink

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/component-base/metrics"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-8, DA-11, SV-10: what a sink gets and does not get is in the metrics, per sink, under one naming scheme.
func TestMetrics(t *testing.T) {
	good, bad := newHTTPSink(t), newHTTPSink(t)
	bad.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	r := startRouter(t, Config{AllowInsecure: true, SpoolBytes: 256 << 10})
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(r.Collector()); err != nil {
		t.Fatal(err)
	}
	gone := sinkAt("mute", "Metadata", "", nil)
	gone.Spec.Webhook = nil
	r.Update([]*v1alpha1.AuditSink{good.object("good", "Metadata"), bad.object("bad", "Metadata"), gone}, nil)
	process(t, r, 0, 1500)
	eventually(t, "delivered", func() bool { return status(t, r, "good").Delivered+status(t, r, "good").Dropped == 1500 })
	dropped := status(t, r, "bad").Dropped
	if dropped == 0 {
		t.Fatal("nothing dropped")
	}
	values := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "proviso_audit_") {
			t.Errorf("%s is not named like the others", f.GetName())
		}
		for _, m := range f.Metric {
			key := f.GetName()
			for _, l := range m.Label {
				key += " " + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"proviso_audit_sink_active good": 1, "proviso_audit_sink_active bad": 1, "proviso_audit_sink_active mute": 0,
		"proviso_audit_delivered_events_total good": float64(status(t, r, "good").Delivered), "proviso_audit_delivered_events_total bad": 0,
		"proviso_audit_dropped_events_total full bad": float64(dropped), "proviso_audit_dropped_events_total disk bad": 0,
		"proviso_audit_spooled_events bad": float64(1500 - dropped),
	} {
		swapped := strings.Join(swapLast(strings.Fields(key)), " ")
		if got, ok := values[key]; !ok || got != want {
			if got, ok := values[swapped]; !ok || got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
	}
	if values["proviso_audit_lag_seconds bad"] <= 0 || values["proviso_audit_delivery_attempts_total failure bad"]+values["proviso_audit_delivery_attempts_total bad failure"] <= 0 {
		t.Errorf("%v", values)
	}
	r.Update(nil, nil)
	if left, err := registry.Gather(); err != nil || len(left) != 0 {
		t.Errorf("%v of deleted sinks, %v", left, err)
	}
}

func swapLast(words []string) []string {
	if n := len(words); n >= 3 {
		words[n-1], words[n-2] = words[n-2], words[n-1]
	}
	return words
}
