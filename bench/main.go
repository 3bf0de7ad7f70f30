package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "small sizes and few rounds, to see that it runs; the figures say little")
	output := flags.String("o", "text", "text, or json for one object per line")
	svg := flags.String("svg", "", "directory: write the growth curves of this run as SVG there")
	from := flags.String("from", "", "file with what -o json has printed: show that, and measure nothing")
	only := flags.String("run", "", "regular expression: only the measures whose name matches")
	bindings := flags.Int("scale", 0, "measure only a live server with so many bindings")
	replicas := flags.Int("replicas", 0, "measure only two replicas on three members of etcd with so many bindings")
	unions := flags.Bool("unions", false, "with -watches: watches over all namespaces by users with rights in some of them")
	watches := flags.Int("watches", 0, "measure only a live server with so many watches, and a fifth as many clients")
	stored := flags.Int("stored", 0, "e2e: store so many config maps besides")
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *output != "text" && *output != "json":
		return fmt.Errorf("output %q is not known; use text or json", *output)
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	b := &bench{rounds: 31, turn: 20 * time.Millisecond, budget: 8 * time.Second, patience: 15 * time.Second,
		sizes: []int{100, 1_000, 10_000, 100_000}, all: []int{100, 1_000, 10_000, 100_000, 1_000_000},
		variables: []int{4, 60, 620, 6_200},
		clients:   4, turns: 9, stretch: 400 * time.Millisecond, starts: 3, idle: 10 * time.Second, crowd: 20_000, writes: 200, stored: *stored, ctx: ctx, match: match}
	if *quick {
		b.rounds, b.turn, b.budget, b.sizes = 5, 2*time.Millisecond, time.Second, []int{100, 10_000}
		b.all, b.variables = b.sizes, []int{4, 500}
		b.turns, b.stretch, b.starts, b.idle, b.crowd, b.writes = 3, 150*time.Millisecond, 1, 2*time.Second, 2_000, 20
	}
	w := bufio.NewWriter(out)
	var results []result
	b.emit = func(r result) error {
		results = append(results, r)
		if *output == "json" {
			if err := json.NewEncoder(w).Encode(r); err != nil {
				return err
			}
		} else {
			fmt.Fprintln(w, r)
		}
		return w.Flush()
	}
	switch {
	case *from != "":
		err = replay(*from, b)
	case *bindings > 0:
		err = scale(b, *bindings)
	case *replicas > 0:
		err = replicated(b, *replicas)
	case *watches > 0 && *unions:
		err = watchingUnions(b, *watches)
	case *watches > 0:
		err = watching(b, *watches)
	default:
		err = measure(b)
	}
	if err == nil && *svg != "" {
		err = draw(*svg, results)
	}
	return err
}

// measure runs everything, the in-process engines first. A measure that fails does not keep the others from running.
func measure(b *bench) error {
	var failed []error
	for _, group := range []func(*bench) error{authorizing, timing, conditions, fields, protections, audits, delivery, inverse, changes, memory, policyTests, endToEnd, share, crowded, effective, reads, unionReads, hiddenReads, verifying, tokens} {
		if err := group(b); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			failed = append(failed, err)
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d groups of measures failed, the first: %w", len(failed), failed[0])
	}
	return nil
}

// replay emits the results of an earlier run.
func replay(path string, b *bench) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var r result
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !b.wanted(r.Name) {
			continue
		}
		if err := b.emit(r); err != nil {
			return err
		}
	}
}
