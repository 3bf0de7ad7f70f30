package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/bench/live"
)

// stretches is how many times each server is loaded in a round. A server collects its garbage every two or three
// seconds of load, and does half as much meanwhile: a single stretch has a collection in it or has none.
const stretches = 6

// crowded is what a bound user sees of everybody else's bindings: gets of a config map, on servers with few and with
// many cluster role bindings. The lines with -kept are how much of its rate a server keeps when the bindings grow.
func crowded(b *bench) error {
	const rate, late, cost, kept = "e2e-bound-get-rate", "e2e-bound-get-p99", "e2e-bound-get-cpu", "e2e-bound-get-kept"
	if !b.wanted(rate) && !b.wanted(late) && !b.wanted(cost) && !b.wanted(kept) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	sizes := [2]int{100, b.crowd}
	// ours with few and many, then stock with few and many
	var servers []*live.Server
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	for i := range 4 {
		start := func() (*live.Server, error) { return live.StartProviso(b.ctx, bins, "proviso") }
		if i > 1 {
			start = func() (*live.Server, error) { return live.StartStock(b.ctx, bins, "stock") }
		}
		s, err := start()
		if err != nil {
			return err
		}
		servers = append(servers, s)
		if err := bindCrowd(b.ctx, s, sizes[i%2]); err != nil {
			return err
		}
	}
	var rates, latest, costs [4][]float64
	for range b.turns {
		var loads [4]live.Load
		var worked [4]time.Duration
		for range stretches {
			for _, i := range rand.Perm(len(servers)) {
				load, work, err := b.boundGets(servers[i], sizes[i%2])
				if err != nil {
					return fmt.Errorf("%s with %d bindings: %w", servers[i].Name, sizes[i%2], err)
				}
				loads[i].Each = append(loads[i].Each, load.Each...)
				loads[i].PerSecond += load.PerSecond / stretches
				worked[i] += work
			}
		}
		for i, load := range loads {
			load.Sort()
			rates[i] = append(rates[i], load.PerSecond)
			latest[i] = append(latest[i], float64(load.Quantile(0.99)))
			costs[i] = append(costs[i], float64(worked[i])/float64(len(load.Each)))
		}
	}
	for i, n := range sizes {
		if err := b.pair(rate, n, "/s", rates[i], "stock", rates[i+2]); err != nil {
			return err
		}
		if err := b.pair(late, n, "ns", latest[i], "stock", latest[i+2]); err != nil {
			return err
		}
		if err := b.pair(cost, n, "ns", costs[i], "stock", costs[i+2]); err != nil {
			return err
		}
	}
	return b.pair(kept, b.crowd, "%", percent(rates[1], rates[0]), "stock", percent(rates[3], rates[2]))
}

// percent compares round by round.
func percent(of, to []float64) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = 100 * of[i] / to[i]
	}
	return all
}

// bindCrowd gives a server one role with n cluster role bindings of one user each, and a config map to read.
func bindCrowd(ctx context.Context, s *live.Server, n int) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bench-view"}, Rules: viewRole().Rules}
	if err := s.Admin.Create(ctx, rbacPath+"clusterroles", role); err != nil {
		return err
	}
	if err := s.Admin.Create(ctx, maps("default"), configMap("c", 0)); err != nil {
		return err
	}
	err := s.Seed(ctx, "clusterrolebindings", n, func(i int) (string, runtime.Object) {
		binding := clusterBinding(i, role.Name)
		binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
		binding.UID, binding.CreationTimestamp = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), metav1.Now()
		return binding.Name, binding
	})
	if err != nil {
		return err
	}
	// Bindings are written side by side: that the last one is known says nothing about the one that is measured.
	for _, i := range []int{n - 1, measured(n)} {
		user, err := s.User(userName(i))
		if err != nil {
			return err
		}
		if err := eventually(ctx, func() error { return user.Must(ctx, http.MethodGet, maps("default")+"/c", nil) }); err != nil {
			return err
		}
	}
	return nil
}

// measured is the user, of n, whose requests are measured.
func measured(n int) int { return n / 2 }

// eventually repeats what authorization does not allow yet, because it follows what is written.
func eventually(ctx context.Context, request func() error) error {
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := request()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// boundGets returns what the user got, and how long processors worked for the server meanwhile.
func (b *bench) boundGets(s *live.Server, n int) (live.Load, time.Duration, error) {
	user, err := s.User(userName(measured(n)), "team-a", "team-b", "team-c")
	if err != nil {
		return live.Load{}, 0, err
	}
	get := func(ctx context.Context, _ int) error {
		return user.Must(ctx, http.MethodGet, maps("default")+"/c", nil)
	}
	// The connections and the first look at the bindings are not measured.
	if err := live.Times(b.ctx, b.clients, 10*b.clients, get); err != nil {
		return live.Load{}, 0, err
	}
	before := s.Worked()
	load, err := live.During(b.ctx, b.clients, b.stretch, get)
	return load, s.Worked() - before, err
}
