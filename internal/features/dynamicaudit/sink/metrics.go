package sink

import (
	"k8s.io/component-base/metrics"
)

// Collector returns the metrics of the router. Everything is read when it is asked for, so that counting costs requests
// nothing, and what belongs to a deleted sink disappears with it.
func (r *Router) Collector() metrics.StableCollector {
	return &collector{router: r, figures: figures()}
}

type collector struct {
	metrics.BaseStableCollector
	router  *Router
	figures []figure
}

// figure is one metric and how it is read from the status of a sink.
type figure struct {
	desc  *metrics.Desc
	kind  metrics.ValueType
	read  func(*SinkStatus) float64
	label string // value of the second label, if it has one
}

func figures() []figure {
	desc := func(name, help string, more ...string) *metrics.Desc {
		return metrics.NewDesc("proviso_audit_"+name, help, append([]string{"sink"}, more...), nil, metrics.ALPHA, "")
	}
	dropped := desc("dropped_events_total", "Audit events that a sink will not get, by reason.", "reason")
	attempts := desc("delivery_attempts_total", "Requests that were made to an audit sink, by result.", "result")
	return []figure{
		{desc("sink_active", "Whether an audit sink gets events."), metrics.GaugeValue, func(s *SinkStatus) float64 {
			if s.Active {
				return 1
			}
			return 0
		}, ""},
		{desc("sink_rules", "Rules of the compiled policy of an audit sink."), metrics.GaugeValue, func(s *SinkStatus) float64 { return float64(s.Rules) }, ""},
		{desc("delivered_events_total", "Audit events that a sink has acknowledged."), metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Delivered) }, ""},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.Full) }, "full"},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.Share) }, "share"},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.Disk) }, "disk"},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.Oversize) }, "oversize"},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.Corrupt) }, "corrupt"},
		{dropped, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Drops.SetAside) }, "set_aside"},
		{desc("truncated_events_total", "Audit events that have lost their bodies because they were too large, or because the sink refused them otherwise."), metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Truncated) }, ""},
		{desc("torn_events_total", "Audit events that were cut off by the death of the server, before their requests were answered."), metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.Torn) }, ""},
		{desc("spooled_events", "Audit events that wait for a sink."), metrics.GaugeValue, func(s *SinkStatus) float64 { return float64(s.Spooled) }, ""},
		{desc("spool_bytes", "Size of the spool of an audit sink on disk."), metrics.GaugeValue, func(s *SinkStatus) float64 { return float64(s.SpoolBytes) }, ""},
		{desc("lag_seconds", "For how long the oldest event that waits for an audit sink has waited."), metrics.GaugeValue, func(s *SinkStatus) float64 { return s.Lag.Seconds() }, ""},
		{attempts, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.attempts.succeeded) }, "success"},
		{attempts, metrics.CounterValue, func(s *SinkStatus) float64 { return float64(s.attempts.failed) }, "failure"},
		{desc("delivery_seconds_total", "Time spent on requests to an audit sink."), metrics.CounterValue, func(s *SinkStatus) float64 { return s.attempts.time.Seconds() }, ""},
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	seen := map[*metrics.Desc]bool{}
	for _, f := range c.figures {
		if !seen[f.desc] {
			seen[f.desc] = true
			ch <- f.desc
		}
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	for _, s := range c.router.Status() {
		for _, f := range c.figures {
			labels := []string{s.Name}
			if f.label != "" {
				labels = append(labels, f.label)
			}
			ch <- metrics.NewLazyConstMetric(f.desc, f.kind, f.read(&s), labels...)
		}
	}
}
