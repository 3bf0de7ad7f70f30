package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"proviso.dev/proviso/bench/live"
)

// bench is how thoroughly to measure, and where results go.
type bench struct {
	rounds int
	// turn is how long a side works before the other has its turn.
	turn time.Duration
	// budget ends a measure whose sides are slow, after a few rounds.
	budget time.Duration
	// sizes are the numbers of bindings, and all those of the growth of authorize, which goes further.
	sizes, all []int
	// patience is how long a peer may take to load its bindings.
	patience time.Duration
	// variables are how many environment variables a pod has, about 200 bytes each with their owner.
	variables []int
	// clients load a server at the same time, for stretch in each of turns rounds.
	clients, turns int
	stretch        time.Duration
	// starts is how often every server is started.
	starts int
	// idle is how long a server is left alone before its memory is looked at.
	idle time.Duration
	// stored is how many config maps there are besides, end to end.
	stored int
	// crowd is the larger number of cluster role bindings on a running server, and writes how often a role is changed
	// there.
	crowd, writes int
	bins          live.Binaries
	ctx           context.Context
	match         *regexp.Regexp
	emit          func(result) error
}

// largest is the number of bindings of measures that are taken at one size.
func (b *bench) largest() int { return b.sizes[len(b.sizes)-1] }

// side is one way to do the work. An error is a wrong answer and ends the run: speed without the right answer is none.
type side struct {
	name string
	once func() error
}

// skipped is the reason why a side does not take part.
type skipped string

func (s skipped) Error() string { return string(s) }

// absent is a side that does not take part.
func absent(name, why string) side { return side{name, func() error { return skipped(why) }} }

// wanted reports whether a measure is to be taken, before its fixture is built.
func (b *bench) wanted(name string) bool { return b.match.MatchString(name) }

// compare lets all sides work in alternating turns and emits one line for each peer.
func (b *bench) compare(name string, n int, ours side, peers ...side) error {
	if !b.wanted(name) {
		return nil
	}
	sides := append([]side{ours}, peers...)
	times, missing, err := b.alternate(sides)
	if err != nil {
		return fmt.Errorf("%s n=%d: %w", name, n, err)
	}
	for i, peer := range sides {
		if i == 0 {
			continue
		}
		r := result{Name: name, N: n, Unit: "ns", Proviso: median(times[0]), Peer: peer.name, PeerIs: median(times[i]),
			Spread: max(spread(times[0]), spread(times[i])), Skipped: string(missing[i])}
		if err := b.report(r); err != nil {
			return err
		}
	}
	return nil
}

// alternate returns how long each side took for its work, round by round, or why it takes no part.
func (b *bench) alternate(sides []side) (times [][]float64, missing []skipped, err error) {
	runtime.GC()
	began, turns := time.Now(), make([]int, len(sides))
	times, missing = make([][]float64, len(sides)), make([]skipped, len(sides))
	for i, s := range sides {
		turns[i], err = b.calibrate(s)
		if err != nil && !errors.As(err, &missing[i]) {
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	collect := heapInUse() < smallHeap
	if collect {
		// Whether a collection falls into a turn of some milliseconds is chance, and likelier for the side that gets
		// more done in it.
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
	}
	for round := 0; round < b.rounds && (round < b.fewest() || time.Since(began) < b.budget); round++ {
		for k := range sides {
			i := (round + k) % len(sides) // no side is always the first
			if missing[i] != "" {
				continue
			}
			if collect {
				runtime.GC() // what one side leaves behind is not for the other side to collect
			}
			took, err := work(sides[i], turns[i])
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			times[i] = append(times[i], float64(took)/float64(turns[i]))
		}
	}
	return times, missing, nil
}

// fewest is the number of rounds without which a median says nothing.
func (b *bench) fewest() int { return min(b.rounds, 5) }

// smallHeap is what can be collected between turns without taking longer than the turns.
const smallHeap = 256 << 20

func (b *bench) report(r result) error {
	r.Ratio = ratio(r)
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
