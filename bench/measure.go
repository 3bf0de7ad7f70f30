package main

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"time"
)

// bench is how thoroughly to measure, and where results go.
type bench struct {
	rounds int
	// turn is how long a side works before the other has its turn.
	turn time.Duration
	// sizes are the numbers of bindings.
	sizes []int
	match *regexp.Regexp
	emit  func(result) error
}

// largest is the number of bindings of measures that are taken at one size.
func (b *bench) largest() int { return b.sizes[len(b.sizes)-1] }

// side is one way to do the work. An error is a wrong answer and ends the run: speed without the right answer is none.
type side struct {
	name string
	once func() error
}

// result is one line.
type result struct {
	Name    string  `json:"name"`
	N       int     `json:"n"`
	Unit    string  `json:"unit"`
	Proviso float64 `json:"proviso"`
	Peer    string  `json:"peer"`
	PeerIs  float64 `json:"peerIs"`
	Ratio   float64 `json:"ratio"`
	Spread  float64 `json:"spreadPercent"`
}

func (r result) String() string {
	return fmt.Sprintf("bench %s n=%d proviso=%s %s=%s ratio=%.3g spread=%.0f%%",
		r.Name, r.N, quantity(r.Proviso, r.Unit), r.Peer, quantity(r.PeerIs, r.Unit), r.Ratio, r.Spread)
}

// quantity shows three digits of a figure.
func quantity(v float64, unit string) string {
	if unit != "ns" {
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	units := []string{"ns", "µs", "ms", "s"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.3g%s", v, units[i])
}

// wanted tells whether a measure is to be taken, before its fixture is built.
func (b *bench) wanted(name string) bool { return b.match.MatchString(name) }

// compare lets both sides work in alternating turns and emits one line.
func (b *bench) compare(name string, n int, ours, peer side) error {
	if !b.wanted(name) {
		return nil
	}
	runtime.GC()
	sides := [2]side{ours, peer}
	var turns [2]int
	for i, s := range sides {
		var err error
		if turns[i], err = b.calibrate(s); err != nil {
			return fmt.Errorf("%s n=%d: %s: %w", name, n, s.name, err)
		}
	}
	var times [2][]float64
	for round := range b.rounds {
		for k := range sides {
			i := (round + k) % 2 // neither side is always the first
			runtime.GC()         // what one side leaves behind is not for the other side to collect
			took, err := work(sides[i], turns[i])
			if err != nil {
				return fmt.Errorf("%s n=%d: %s: %w", name, n, sides[i].name, err)
			}
			times[i] = append(times[i], float64(took)/float64(turns[i]))
		}
	}
	r := result{Name: name, N: n, Unit: "ns", Proviso: median(times[0]), Peer: peer.name, PeerIs: median(times[1]),
		Spread: max(spread(times[0]), spread(times[1]))}
	return b.report(r)
}

func (b *bench) report(r result) error {
	if r.Proviso > 0 {
		r.Ratio = r.PeerIs / r.Proviso
	}
	return b.emit(r)
}

// calibrate finds how often a side does its work in a turn, and warms it up.
func (b *bench) calibrate(s side) (int, error) {
	for n := 1; ; n *= 2 {
		took, err := work(s, n)
		if err != nil || took >= b.turn || n >= 1<<24 {
			return n, err
		}
		if took > b.turn/16 {
			return max(1, int(float64(n)*float64(b.turn)/float64(took))), nil
		}
	}
}

// work is the processor time of n times the work.
func work(s side, n int) (time.Duration, error) {
	start := processorTime()
	for range n {
		if err := s.once(); err != nil {
			return 0, err
		}
	}
	return processorTime() - start, nil
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
