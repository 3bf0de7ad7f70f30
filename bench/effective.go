package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

// goal is what a role change may take until it is effective.
const goal = 100 * time.Millisecond

// effective is the time from sending a changed role to a server until the decision has changed for a user that is bound to it, the
// write itself included. All n cluster role bindings of the server refer to that role. The peer is the goal.
func effective(b *bench) error {
	const p50, p99 = "e2e-role-write-effective-p50", "e2e-role-write-effective-p99"
	if !b.wanted(p50) && !b.wanted(p99) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "proviso")
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := bindCrowd(b.ctx, s, b.largest()); err != nil {
		return err
	}
	user, err := s.User(userName(b.largest()/2), "team-a")
	if err != nil {
		return err
	}
	var delays live.Load
	for i := range b.writes {
		took, err := flip(b.ctx, s.Admin, user, i%2 == 0)
		if err != nil {
			return err
		}
		delays.Each = append(delays.Each, took)
	}
	delays.Sort()
	for name, q := range map[string]float64{p50: 0.5, p99: 0.99} {
		if err := b.pair(name, b.largest(), "ns", []float64{float64(delays.Quantile(q))}, "goal", []float64{float64(goal)}); err != nil {
			return err
		}
	}
	return nil
}

// flip takes the right to read config maps out of the role, or puts it back, and returns how long the user saw the old decision.
func flip(ctx context.Context, admin, user *live.Client, away bool) (time.Duration, error) {
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "bench-view"}, Rules: viewRole().Rules}
	want := http.StatusOK
	if away {
		role.Rules, want = role.Rules[1:], http.StatusForbidden
	}
	body, err := json.Marshal(role)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := admin.Must(ctx, http.MethodPut, rbacPath+"clusterroles/"+role.Name, body); err != nil {
		return 0, err
	}
	for time.Since(began) < time.Minute {
		status, text, err := user.Do(ctx, http.MethodGet, maps("default")+"/c", nil)
		switch {
		case err != nil:
			return 0, err
		case status == want:
			return time.Since(began), nil
		case status != http.StatusOK && status != http.StatusForbidden:
			return 0, fmt.Errorf("status %d: %s", status, text)
		}
	}
	return 0, fmt.Errorf("the change of a role was not effective after a minute")
}
