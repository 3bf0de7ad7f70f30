package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// What is compared.
const (
	alone  = "alone"
	again  = "alone, again"
	never  = "never asked"
	idling = "idle webhooks"
	beside = "sidecar"
)

// compared are the others of the pairs.
var compared = []string{again, never, idling, beside}

// report prints what each other pays more than the server alone beside it, and how sure that is.
func report(all map[string]*pair, sets int) {
	for _, c := range callers {
		for _, request := range requests {
			key := c.name + ", " + request
			more := map[string]time.Duration{}
			fmt.Printf("%s:\n", key)
			for _, name := range compared {
				p := all[name]
				if p == nil {
					continue
				}
				d := differenceOf(p.other.took[key], p.alone.took[key])
				more[name] = d.middle
				fmt.Printf("  %-14s %s", name, d)
				if sets > 1 {
					fmt.Printf(" [%s]", eachStart(p.other.took[key], p.alone.took[key], sets))
				}
				n := time.Duration(len(p.alone.took[key]))
				fmt.Printf(", where alone %s", short(median(p.alone.took[key])))
				fmt.Printf(" (%d requests); processor time of the API server %s, alone %s", n, short(p.other.cpu[key][0]/n), short(p.alone.cpu[key][0]/n))
				if name == beside {
					fmt.Printf(", and of the sidecar %s", short(p.other.cpu[key][1]/n))
				}
				fmt.Println()
			}
			switch {
			case all[beside] == nil:
			case c.exempt:
				fmt.Printf("  the sidecar costs %dµs (goal: at most 50µs)\n", more[beside].Microseconds())
			case all[idling] != nil:
				fmt.Printf("  the sidecar costs %.2f times what idle webhooks do (goal: at most 1.5)\n", float64(more[beside])/float64(more[idling]))
			}
		}
	}
}

// difference is the median of what the same requests took longer, and where it lies with a certainty of 95 %.
type difference struct{ middle, low, high time.Duration }

func differenceOf(these, those []time.Duration) difference {
	var all []time.Duration
	for i := range these {
		all = append(all, these[i]-those[i])
	}
	slices.Sort(all)
	half := int(math.Ceil(0.98 * math.Sqrt(float64(len(all)))))
	return difference{all[len(all)/2], all[max(0, len(all)/2-half)], all[min(len(all)-1, len(all)/2+half)]}
}

// eachStart are the medians of each time that the pair was started: they differ by more than chance does within one.
func eachStart(these, those []time.Duration, sets int) string {
	var all []string
	for set, n := 0, len(these)/sets; set < sets; set++ {
		d := differenceOf(these[set*n:(set+1)*n], those[set*n:(set+1)*n])
		all = append(all, fmt.Sprintf("%+d", d.middle.Microseconds()))
	}
	return strings.Join(all, " ")
}

func (d difference) String() string {
	return fmt.Sprintf("%+dµs (%+d to %+d)", d.middle.Microseconds(), d.low.Microseconds(), d.high.Microseconds())
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
