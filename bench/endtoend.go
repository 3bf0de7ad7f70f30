package main

import (
	"fmt"
	"slices"
	"time"

	"proviso.dev/proviso/bench/live"
)

// off are all systems of Proviso switched off.
const off = "ConditionalAuthorization=false,PolicyAuthorization=false,FieldPermissions=false,ProtectedAttributes=false,DynamicAudit=false"

// modes are how Proviso runs beside the stock server: with its systems off, on but without an object of theirs, and in
// use.
var modes = []string{"off", "on", "use"}

// operations are the load, in this order in every round.
var operations = []string{"create", "update", "get", "list", "delete", "delete-checked"}

// endToEnd runs the stock kube-apiserver and Proviso in three modes side by side, and gives them the same load in
// turns.
func endToEnd(b *bench) error {
	var names []string
	for _, m := range modes {
		names = append(names, "e2e-start-"+m, "e2e-rss-"+m)
		for _, op := range operations {
			names = append(names, endToEndNames(op, m)...)
		}
	}
	if !slices.ContainsFunc(names, b.wanted) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	sink := newSink()
	defer sink.Close()
	var servers []*live.Server
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	started, err := b.startAll(bins, &servers)
	if err != nil {
		return err
	}
	for i, m := range modes {
		if err := b.pair("e2e-start-"+m, 1, "ns", started[i+1], "stock", started[0]); err != nil {
			return err
		}
	}
	if err := b.resident(servers); err != nil {
		return err
	}
	workloads := make([]*workload, len(servers))
	for i, s := range servers {
		if workloads[i], err = newWorkload(b.ctx, s, i == len(servers)-1, sink.URL, b.clients, b.stored); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return b.rates(workloads)
}

// startAll starts every server some times, one after the other, and leaves them running the last time. It returns how
// long each took.
func (b *bench) startAll(bins live.Binaries, running *[]*live.Server) ([][]float64, error) {
	all := append([]string{"stock"}, modes...)
	took := make([][]float64, len(all))
	for round := range b.starts {
		for i, m := range all {
			s, err := startMode(b, bins, m)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], float64(s.Started))
			if round == b.starts-1 {
				*running = append(*running, s)
			} else {
				s.Stop()
			}
		}
	}
	return took, nil
}

// binaries builds the servers when the first measure needs them.
func (b *bench) binaries() (live.Binaries, error) {
	if b.bins == (live.Binaries{}) {
		var err error
		if b.bins, err = live.Build(b.ctx); err != nil {
			return live.Binaries{}, err
		}
	}
	return b.bins, nil
}

func startMode(b *bench, bins live.Binaries, mode string) (*live.Server, error) {
	switch mode {
	case "stock":
		return live.StartStock(b.ctx, bins, mode)
	case "off":
		return live.StartProviso(b.ctx, bins, mode, "--feature-gates", off)
	case "use":
		return live.StartProviso(b.ctx, bins, mode, "--audit-dynamic-allow-insecure-sinks")
	default:
		return live.StartProviso(b.ctx, bins, mode)
	}
}

// resident compares the memory of servers that have done nothing yet. The stock one counts with its etcd; ours has its
// own within. Ours has controllers as well: stock is measured without any, and then with the same.
func (b *bench) resident(servers []*live.Server) error {
	without, err := b.idleMemory(servers)
	if err != nil || without[0] == 0 {
		return err // or the system does not say
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	if err := servers[0].StartControllers(b.ctx, bins); err != nil {
		return err
	}
	defer servers[0].StopControllers()
	with, err := b.idleMemory(servers[:1])
	if err != nil {
		return err
	}
	for i, m := range modes {
		if m == "use" {
			continue // nothing is in use yet
		}
		ours := []float64{without[i+1]}
		if err := b.pair("e2e-rss-"+m, 1, "B", ours, "stock", without[:1]); err != nil {
			return err
		}
		if err := b.pair("e2e-rss-"+m, 1, "B", ours, "stock-with-controllers", with); err != nil {
			return err
		}
	}
	return nil
}

// idleMemory is what servers hold after a while in which nobody asks them anything.
func (b *bench) idleMemory(servers []*live.Server) ([]float64, error) {
	select {
	case <-time.After(b.idle):
	case <-b.ctx.Done():
		return nil, b.ctx.Err()
	}
	held := make([]float64, len(servers))
	for i, s := range servers {
		held[i] = float64(s.Resident())
	}
	return held, nil
}

// figures are what is taken of every operation: latencies, requests per second, and the processor time that the
// server's processes needed for each of them, which other work on the machine changes least.
var figures = []struct{ name, unit string }{{"p50", "ns"}, {"p99", "ns"}, {"rate", "/s"}, {"cpu", "ns"}}

func endToEndNames(op, mode string) []string {
	var names []string
	for _, f := range figures {
		names = append(names, fmt.Sprintf("e2e-%s-%s-%s", op, f.name, mode))
	}
	return names
}

// rates lets every server have its turn with every operation in every round.
func (b *bench) rates(workloads []*workload) error {
	// measured[operation][server][figure] has a value for each round.
	measured := map[string][][][]float64{}
	for _, op := range operations {
		for range workloads {
			measured[op] = append(measured[op], make([][]float64, len(figures)))
		}
	}
	for round := range b.turns {
		for _, op := range operations {
			for k := range workloads {
				i := (round + k) % len(workloads)
				before := workloads[i].server.Worked()
				load, err := workloads[i].run(b.ctx, op, b.stretch)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", op, workloads[i].server.Name, err)
				}
				worked := float64(workloads[i].server.Worked()-before) / float64(len(load.Each))
				for f, v := range []float64{float64(load.Quantile(0.5)), float64(load.Quantile(0.99)), load.PerSecond, worked} {
					measured[op][i][f] = append(measured[op][i][f], v)
				}
			}
		}
	}
	for _, op := range operations {
		for i, m := range modes {
			for f, name := range endToEndNames(op, m) {
				if err := b.pair(name, b.clients, figures[f].unit, measured[op][i+1][f], "stock", measured[op][0][f]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pair reports figures that were taken elsewhere, round by round.
func (b *bench) pair(name string, n int, unit string, ours []float64, peer string, theirs []float64) error {
	if !b.wanted(name) {
		return nil
	}
	return b.report(result{Name: name, N: n, Unit: unit, Proviso: median(ours), Peer: peer, PeerIs: median(theirs),
		Spread: max(spread(ours), spread(theirs))})
}
