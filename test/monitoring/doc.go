// Package monitoring checks what deploy/monitoring offers, with Prometheus' own parsers. It is a module of its own, so
// that nobody who builds Proviso needs Prometheus.
package monitoring
