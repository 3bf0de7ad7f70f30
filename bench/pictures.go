package main

import (
	"os"
	"path/filepath"
	"strings"

	"proviso.dev/proviso/bench/chart"
)

// picture is a growth curve: measures whose size varies, ours and all peers.
type picture struct {
	file, title, size, cost string
	// measures are drawn under their names if there are several.
	measures []string
	// whole multiplies with the size: the cost of all bindings instead of that of one.
	whole bool
}

var pictures = []picture{
	{file: "authorize", title: "Authorize a bound user", size: "bindings", cost: "processor time per decision", measures: []string{"authorize-allow"}},
	{file: "authorize-none", title: "Authorize a user without a binding", size: "bindings", cost: "processor time per decision", measures: []string{"authorize-none"}},
	{file: "authorize-conditional", title: "Authorize under a condition, and evaluate it", size: "bindings", cost: "processor time per decision", measures: []string{"authorize-conditional"}},
	{file: "who-can", title: "Who can read one secret: a hundred users", size: "bindings", cost: "processor time per answer", measures: []string{"who-can"}},
	{file: "recompile", title: "A change, until the next index can be published", size: "bindings", cost: "processor time per change", measures: []string{"role-change", "binding-change"}},
	{file: "memory", title: "Memory of the bindings", size: "bindings", cost: "heap", measures: []string{"memory-per-binding"}, whole: true},
	{file: "fields", title: "Which fields has an update changed", size: "bytes of the object", cost: "processor time per update", measures: []string{"field-diff"}},
	{file: "sinks", title: "Audit levels of one request", size: "audit sinks", cost: "processor time per request", measures: []string{"audit-level", "audit-level-all"}},
}

// draw writes the pictures for which there are results at more than one size.
func draw(dir string, results []result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pictures {
		c, ok := p.chart(results)
		if !ok {
			continue
		}
		f, err := os.Create(filepath.Join(dir, p.file+".svg"))
		if err != nil {
			return err
		}
		if err := firstOf(c.WriteSVG(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (p picture) chart(results []result) (*chart.Chart, bool) {
	c := &chart.Chart{Title: p.title, Size: p.size, Cost: p.cost + ", log-log"}
	at := map[string]int{}
	sizes := map[int]bool{}
	add := func(name string, ours bool, n int, v float64) {
		i, ok := at[name]
		if !ok {
			i = len(c.Series)
			at[name] = i
			c.Series = append(c.Series, chart.Series{Name: name, Ours: ours})
		}
		for _, point := range c.Series[i].Points {
			if point.Size == float64(n) {
				return // one line for each peer repeats ours
			}
		}
		c.Series[i].Points = append(c.Series[i].Points, chart.Point{Size: float64(n), Cost: v})
	}
	for _, measure := range p.measures {
		for _, r := range results {
			if r.Name != measure {
				continue
			}
			times := 1.0
			if p.whole {
				times = float64(r.N)
			}
			ours := "Proviso"
			if kind, rest, ok := strings.Cut(measure, "-change"); ok && rest == "" {
				ours += ": " + kind
			}
			sizes[r.N] = true
			unit := r.Unit
			c.Format = func(v float64) string { return quantity(v, unit) }
			add(ours, true, r.N, times*r.Proviso)
			if r.Skipped == "" {
				add(r.Peer, false, r.N, times*r.PeerIs)
			}
		}
	}
	return c, len(sizes) > 1
}
