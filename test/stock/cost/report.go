package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// What is compared.
const (
	alone  = "alone"
	again  = "alone, again"
	never  = "never asked"
	idling = "idle webhooks"
	beside = "side-car"
)

// report prints what each stack pays more than a server alone, and how sure that is.
func report(stacks []*stack) {
	for _, c := range callers {
		for _, request := range requests {
			key := c.name + ", " + request
			base, count := stacks[0].took[key], len(stacks[0].took[key])
			fmt.Printf("%s (%d requests of each): alone %s\n", key, count, short(median(base)))
			more := map[string]time.Duration{}
			for _, s := range stacks {
				if s.name != alone {
					d := differenceOf(s.took[key], base)
					more[s.name] = d.middle
					fmt.Printf("  %-14s %s", s.name, d)
				} else {
					fmt.Printf("  %-14s", s.name)
				}
				n := time.Duration(count)
				fmt.Printf(", processor time of the API server %s", short(s.cpu[key][0]/n))
				if s.name == beside {
					fmt.Printf(", and of the side-car %s", short(s.cpu[key][1]/n))
				}
				fmt.Println()
			}
			if c.user == "dev" {
				fmt.Printf("  the side-car costs %.2f times what idle webhooks do (goal: at most 1.5)\n", float64(more[beside])/float64(more[idling]))
			} else {
				fmt.Printf("  the side-car costs %s, of which a webhook that is never asked costs %s (goal: at most 50µs)\n", short(more[beside]), short(more[never]))
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

func (d difference) String() string {
	return fmt.Sprintf("%+dµs (%+d to %+d)", d.middle.Microseconds(), d.low.Microseconds(), d.high.Microseconds())
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
