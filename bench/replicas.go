package main

import (
	"fmt"
	"net/http"
	"time"

	"proviso.dev/proviso/bench/live"
)

// scaleFailover is how long a change may take, with its effect, when the member of etcd that leads was just killed: the
// others choose a new one after a second or two.
const scaleFailover = 10 * time.Second

// replicated is two replicas on three members of etcd with n bindings: that both decide the same, how long a revocation
// at one takes to be effective at the other, how long one takes whose etcd loses its leader, and that a replica which
// was killed comes back with what changed meanwhile. It takes minutes, and is not part of the other measures.
func replicated(b *bench, n int) error {
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	all, err := live.StartReplicas(b.ctx, bins, 2, func(s *live.Server) error { return fillEtcd(b.ctx, s, n) })
	if err != nil {
		return err
	}
	defer all.Stop()
	first, second := all.Servers[0], all.Servers[1]
	if err := fillServer(b.ctx, first, n, conditionsOfANamespace); err != nil {
		return err
	}
	goal := func(name string, value, goal time.Duration) error {
		return b.pair("replicas-"+name, n, "ns", []float64{float64(value)}, "goal", []float64{float64(goal)})
	}
	if err := b.agree(all.Servers, n); err != nil {
		return err
	}
	revoked, err := revocations(b.ctx, first, second, n, b.writes)
	if err != nil {
		return err
	}
	if err := goal("revocation-p50", revoked.Quantile(0.5), scaleEffective); err != nil {
		return err
	}
	if err := goal("revocation-p99", revoked.Quantile(0.99), scaleEffective); err != nil {
		return err
	}
	leader, err := all.Leader(b.ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	all.KillMember(leader)
	if _, err = revoke(b.ctx, first, second, n/4+1); err != nil {
		return fmt.Errorf("after etcd's leader was killed: %w", err)
	}
	if err := goal("etcd-leader-killed", time.Since(began), scaleFailover); err != nil {
		return err
	}
	if err := all.StartMember(b.ctx, leader); err != nil {
		return err
	}
	first.Kill()
	took, err := revoke(b.ctx, second, second, n/4+2)
	if err != nil {
		return fmt.Errorf("after a replica was killed: %w", err)
	}
	if err := goal("other-killed", took, scaleEffective); err != nil {
		return err
	}
	if err := first.Restart(b.ctx); err != nil {
		return err
	}
	if err := goal("back", first.Started, scaleReady); err != nil {
		return err
	}
	if err := b.refused(first, n/4+2); err != nil {
		return err
	}
	return b.agree(all.Servers, n)
}

// agree asks all servers about the same users, of whom some have lost what they had.
func (b *bench) agree(servers []*live.Server, n int) error {
	for k := range b.writes {
		i := k * (n / b.writes)
		var answers []int
		for _, s := range servers {
			user, err := s.User(userName(i))
			if err != nil {
				return err
			}
			status, _, err := user.Do(b.ctx, http.MethodGet, maps("default")+"/c", nil)
			if err != nil {
				return err
			}
			answers = append(answers, status)
		}
		for _, status := range answers {
			if status != answers[0] || status != http.StatusOK && status != http.StatusForbidden {
				return fmt.Errorf("replicas do not agree about user %d: %v", i, answers)
			}
		}
	}
	return nil
}

// refused makes sure that a server does not know the binding of a user any more, now that it is ready.
func (b *bench) refused(s *live.Server, i int) error {
	user, err := s.User(userName(i))
	if err != nil {
		return err
	}
	status, _, err := user.Do(b.ctx, http.MethodGet, maps("default")+"/c", nil)
	if err == nil && status != http.StatusForbidden {
		err = fmt.Errorf("a replica that came back lets in whose binding was deleted meanwhile: status %d", status)
	}
	return err
}
