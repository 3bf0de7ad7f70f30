package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/bench/live"
)

// What a live server with very many bindings may take.
const (
	scaleReady     = 60 * time.Second
	scaleResident  = 4 << 30
	scaleEffective = 200 * time.Millisecond
	scaleWhoCan    = 10 * time.Millisecond
)

// Of n bindings, every tenth has a role of its own; of a hundred bindings one is worth a conditional role, a hundred of
// them in each namespace.
const bindingsOfARole, bindingsForACondition, conditionsOfANamespace = 10, 100, 100

// scale is a live server with n bindings: how long it takes to be ready again after a restart, what it holds, what a
// get costs beside a server with a hundred bindings, how long a revocation takes, and how long who-can takes. The peer
// is the goal, for gets the small server, and at the end kube-apiserver on the same etcd. All have an etcd beside them,
// which was filled before they began, and run no controllers. It takes minutes, and is not part of the other measures.
func scale(b *bench, n int) error {
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	few, err := live.StartProvisoOn(b.ctx, bins, "few", func(*live.Server) error { return nil })
	if err != nil {
		return err
	}
	defer few.Stop()
	if err := bindCrowd(b.ctx, few, 100); err != nil {
		return err
	}
	many, err := live.StartProvisoOn(b.ctx, bins, "many", func(s *live.Server) error { return fillEtcd(b.ctx, s, n) })
	if err != nil {
		return err
	}
	defer many.Stop()
	if err := fillServer(b.ctx, many, n, n/bindingsForACondition); err != nil {
		return err
	}
	if err := many.Restart(b.ctx); err != nil {
		return err
	}
	goal := func(name, unit string, value, goal float64) error {
		return b.pair("scale-"+name, n, unit, []float64{value}, "goal", []float64{goal})
	}
	restart := float64(many.Started)
	if err := goal("restart", "ns", restart, float64(scaleReady)); err != nil {
		return err
	}
	if err := settle(b.ctx, many); err != nil {
		return err
	}
	var costs [2][]float64
	for round := range b.turns {
		for k := range 2 {
			i := (round + k) % 2
			s, size := many, n
			if i == 1 {
				s, size = few, 100
			}
			load, worked, err := b.boundGets(s, size)
			if err != nil {
				return fmt.Errorf("gets on %s: %w", s.Name, err)
			}
			costs[i] = append(costs[i], float64(worked)/float64(len(load.Each)))
		}
	}
	if err := b.pair("scale-get-cpu", n, "ns", costs[0], "few", costs[1]); err != nil {
		return err
	}
	resident := float64(many.ResidentAlone())
	if err := goal("rss", "B", resident, scaleResident); err != nil {
		return err
	}
	revoked, err := revocations(b.ctx, many, many, n, b.writes)
	if err != nil {
		return err
	}
	if err := goal("revocation-p50", "ns", float64(revoked.Quantile(0.5)), float64(scaleEffective)); err != nil {
		return err
	}
	if err := goal("revocation-p99", "ns", float64(revoked.Quantile(0.99)), float64(scaleEffective)); err != nil {
		return err
	}
	asked, err := whoCanSecret(b.ctx, many, n, b.writes)
	if err != nil {
		return err
	}
	if err := goal("who-can-p50", "ns", float64(asked.Quantile(0.5)), float64(scaleWhoCan)); err != nil {
		return err
	}
	many.Leave()
	return b.scaleStock(bins, many, n, restart, resident, costs[0])
}

// scaleStock is what kube-apiserver makes of the same etcd: until it is ready, what it holds, and what a get costs.
func (b *bench) scaleStock(bins live.Binaries, many *live.Server, n int, restart, resident float64, gets []float64) error {
	stock, err := live.StartStockOn(b.ctx, bins, "stock", many)
	if err != nil {
		return err
	}
	defer stock.Stop()
	if err := b.pair("scale-restart", n, "ns", []float64{restart}, "stock", []float64{float64(stock.Started)}); err != nil {
		return err
	}
	if err := settle(b.ctx, stock); err != nil {
		return err
	}
	load, worked, err := b.boundGets(stock, n)
	if err != nil {
		return fmt.Errorf("gets on stock: %w", err)
	}
	if err := b.pair("scale-get-cpu", n, "ns", gets, "stock", []float64{float64(worked) / float64(len(load.Each))}); err != nil {
		return err
	}
	return b.pair("scale-rss", n, "B", []float64{resident}, "stock", []float64{float64(stock.ResidentAlone())})
}

// settle waits until a server has nothing left to do from its start.
func settle(ctx context.Context, s *live.Server) error {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		before := s.Worked()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.Worked()-before < time.Second/20 {
			return nil
		}
	}
	return fmt.Errorf("%s does not come to rest", s.Name)
}

// ownRole is the i-th role: what everybody may read, and one secret.
func ownRole(i int) *rbacv1.ClusterRole {
	secret := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fmt.Sprintf("secret-%06d", i)}}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%06d", i)}, Rules: append(viewRole().Rules, secret)}
}

// fillEtcd writes the bindings and the roles of RBAC, as a server would store them.
func fillEtcd(ctx context.Context, s *live.Server, n int) error {
	stored := func(o interface {
		runtime.Object
		metav1.Object
	}, kind string, i int) (string, runtime.Object) {
		o.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)))
		o.SetCreationTimestamp(metav1.Now())
		return o.GetName(), o
	}
	roles := max(1, n/bindingsOfARole)
	if err := s.Seed(ctx, "clusterroles", roles, func(i int) (string, runtime.Object) { return stored(ownRole(i), "ClusterRole", i) }); err != nil {
		return err
	}
	return s.Seed(ctx, "clusterrolebindings", n, func(i int) (string, runtime.Object) {
		return stored(clusterBinding(i, ownRole(i%roles).Name), "ClusterRoleBinding", i)
	})
}

// fillServer makes so many conditional roles, and waits until the last of n bindings is effective.
func fillServer(ctx context.Context, s *live.Server, n, conditional int) error {
	if err := s.Admin.Create(ctx, maps("default"), configMap("c", 0)); err != nil {
		return err
	}
	if err := conditionalRoles(ctx, s.Admin, conditional); err != nil {
		return err
	}
	last, err := s.User(userName(n - 1))
	if err != nil {
		return err
	}
	return eventually(ctx, func() error { return last.Must(ctx, http.MethodGet, maps("default")+"/c", nil) })
}

// conditionalRoles makes n roles of policies whose one rule has a condition.
func conditionalRoles(ctx context.Context, admin *live.Client, n int) error {
	namespaces := (n + conditionsOfANamespace - 1) / conditionsOfANamespace
	name := func(i int) string { return fmt.Sprintf("team-%04d", i) }
	for i := range namespaces {
		if err := admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}); err != nil {
			return err
		}
		if err := admin.Create(ctx, ourPath+"namespaces/"+name(i)+"/policies", json.RawMessage(`{"metadata": {"name": "default"}}`)); err != nil {
			return err
		}
	}
	return live.Times(ctx, 8, n, func(ctx context.Context, i int) error {
		role := fmt.Sprintf(`{"metadata": {"name": "role-%06d"}, "rules": [{"verbs": ["create", "update"], "resourceKinds": ["ConfigMap"],
			"where": "resource.metadata.labels['team'] == 'team-%06d'"}]}`, i, i)
		return admin.Create(ctx, viewsPath+"namespaces/"+name(i%namespaces)+"/roles", json.RawMessage(role))
	})
}

// revocations deletes the only binding of users at one server, and measures from sending the delete until the same or
// another one refuses the user.
func revocations(ctx context.Context, at, asked *live.Server, n, times int) (all live.Load, err error) {
	for k := range min(times, n/4) {
		took, err := revoke(ctx, at, asked, k*(n/4/min(times, n/4)))
		if err != nil {
			return all, err
		}
		all.Each = append(all.Each, took)
	}
	all.Sort()
	return all, nil
}

// revoke takes from the i-th user what they have.
func revoke(ctx context.Context, at, asked *live.Server, i int) (time.Duration, error) {
	user, err := asked.User(userName(i))
	if err != nil {
		return 0, err
	}
	// Without a leader, etcd reads and writes nothing for a while.
	if err := eventually(ctx, func() error { return user.Must(ctx, http.MethodGet, maps("default")+"/c", nil) }); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := eventually(ctx, func() error {
		status, text, err := at.Admin.Do(ctx, http.MethodDelete, rbacPath+"clusterrolebindings/"+clusterBinding(i, "").Name, nil)
		if err == nil && status != http.StatusOK && status != http.StatusNotFound {
			err = fmt.Errorf("status %d: %s", status, text)
		}
		return err
	}); err != nil {
		return 0, err
	}
	for {
		status, text, err := user.Do(ctx, http.MethodGet, maps("default")+"/c", nil)
		switch {
		case err != nil:
			return 0, err
		case status == http.StatusForbidden:
			return time.Since(began), nil
		case status != http.StatusOK && status < http.StatusInternalServerError:
			return 0, fmt.Errorf("status %d: %s", status, text)
		}
	}
}

// whoCanSecret asks who can read secrets that a few of all users can read.
func whoCanSecret(ctx context.Context, s *live.Server, n, times int) (live.Load, error) {
	var all live.Load
	roles := max(1, n/bindingsOfARole)
	for k := range times {
		review := fmt.Sprintf(`{"spec": {"verb": "get", "resourceKind": "secrets", "resourceName": "secret-%06d"}}`, (k*7919)%roles)
		began := time.Now()
		status, text, err := s.Admin.Do(ctx, http.MethodPost, viewsPath+"namespaces/default/resourceaccessreviews", []byte(review))
		all.Each = append(all.Each, time.Since(began))
		switch {
		case err != nil:
			return all, err
		case status != http.StatusCreated:
			return all, fmt.Errorf("who-can: status %d: %s", status, text)
		}
	}
	all.Sort()
	return all, nil
}
