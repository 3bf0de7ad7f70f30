package main

import (
	"fmt"
	"slices"
)

// result is one line.
type result struct {
	Name    string  `json:"name"`
	N       int     `json:"n"`
	Unit    string  `json:"unit"`
	Proviso float64 `json:"proviso"`
	Peer    string  `json:"peer"`
	PeerIs  float64 `json:"peerIs"`
	Ratio   float64 `json:"ratio"` // over 1: Proviso is better
	Spread  float64 `json:"spreadPercent"`
	// Skipped says why there is no figure of the peer.
	Skipped string `json:"skipped,omitempty"`
}

// ratio is how many times as good as the peer Proviso is: of rates and shares more is better, of everything else less.
func ratio(r result) float64 {
	better, worse := r.PeerIs, r.Proviso
	if r.Unit == "/s" || r.Unit == "%" {
		better, worse = worse, better
	}
	if worse <= 0 {
		return 0
	}
	return better / worse
}

func (r result) String() string {
	line := fmt.Sprintf("bench %s n=%d proviso=%s", r.Name, r.N, quantity(r.Proviso, r.Unit))
	if r.Skipped != "" {
		return fmt.Sprintf("%s %s=skipped: %s", line, r.Peer, r.Skipped)
	}
	return fmt.Sprintf("%s %s=%s ratio=%.3g spread=%.0f%%", line, r.Peer, quantity(r.PeerIs, r.Unit), r.Ratio, r.Spread)
}

// quantity shows three digits of a figure.
func quantity(v float64, unit string) string {
	scales := map[string][]string{"ns": {"ns", "µs", "ms", "s"}, "B": {"B", "kB", "MB", "GB"}}[unit]
	if scales == nil {
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	i := 0
	for ; v >= 1000 && i < len(scales)-1; i++ {
		v /= 1000
	}
	if v >= 100 {
		return fmt.Sprintf("%.0f%s", v, scales[i]) // %.3g would write 999.9 as 1e+03
	}
	return fmt.Sprintf("%.3g%s", v, scales[i])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is the interquartile range in percent of the median.
func spread(values []float64) float64 {
	if m := median(values); m > 0 {
		return 100 * (quantile(values, 0.75) - quantile(values, 0.25)) / m
	}
	return 0
}

// quantile interpolates between the two values next to it.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
