package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

const (
	watchesOfAClient = 5
	watchedMaps      = 100
	// Every client asks for an object in this time, and the policy changes so often in a second.
	betweenGets    = 4 * time.Second
	policyWrites   = 100
	watchedStretch = 20 * time.Second
	watchedIn      = "watched"
)

// watching is a live server with n watches and a fifth as many clients, each with a connection of its own, while roles
// change: what a get costs the server beside the same load without the changes. What the server does without gets, with
// changes and without, is measured alone and taken off. No watch may end, no get fail, and every watch has to hear of
// the last change.
func watching(b *bench, n int) error {
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "watched")
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := s.Admin.Create(b.ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watchedIn}}); err != nil {
		return err
	}
	if err := live.Times(b.ctx, 8, watchedMaps, func(ctx context.Context, i int) error {
		return s.Admin.Create(ctx, maps(watchedIn), configMap(fmt.Sprint("c", i), 0))
	}); err != nil {
		return err
	}
	if err := letWatch(b.ctx, s); err != nil {
		return err
	}
	c, err := gather(b.ctx, s, n, "watchers", maps(watchedIn))
	if err != nil {
		return err
	}
	defer c.leave()
	costs := map[bool][]float64{} // by whether roles change
	for range max(1, b.turns/3) {
		for _, changing := range []bool{false, true} {
			without, _, err := c.worked(false, changing)
			if err != nil {
				return err
			}
			with, gets, err := c.worked(true, changing)
			if err != nil {
				return err
			}
			costs[changing] = append(costs[changing], float64(with-without)/float64(gets))
		}
	}
	if err := c.allHear(); err != nil {
		return err
	}
	if err := b.pair("watches-get-cpu", n, "ns", costs[true], "without-policy-writes", costs[false]); err != nil {
		return err
	}
	return b.pair("watches-rss", n, "B", []float64{float64(s.Resident())}, "goal", []float64{scaleResident})
}

// letWatch gives the group of the clients the right to read, and waits until it has it.
func letWatch(ctx context.Context, s *live.Server) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "watchers"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "watchers"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "watchers"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "watchers"}}}
	if err := s.Admin.Create(ctx, rbacPath+"clusterroles", role); err != nil {
		return err
	}
	if err := s.Admin.Create(ctx, rbacPath+"clusterrolebindings", binding); err != nil {
		return err
	}
	if err := s.Admin.Create(ctx, rbacPath+"clusterroles", changingRole(0)); err != nil {
		return err
	}
	first, err := s.User("watcher", "watchers")
	if err != nil {
		return err
	}
	return eventually(ctx, func() error { return first.Must(ctx, http.MethodGet, maps(watchedIn)+"/c0", nil) })
}

// changingRole is a role that nobody has; what it says depends on i.
func changingRole(i int) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "changing"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fmt.Sprint("secret-", i)}}}}
}

// watchers are the clients and their watches.
type watchers struct {
	ctx     context.Context
	server  *live.Server
	clients []*live.Client
	watches int64
	stop    context.CancelCauseFunc
	done    sync.WaitGroup
	written atomic.Int64
	heard   atomic.Int64 // watches that have heard of the last change
}

// gather connects clients of a group and opens the watches, each of one name.
func gather(ctx context.Context, s *live.Server, n int, group, path string) (*watchers, error) {
	c := &watchers{server: s, watches: int64(n)}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	for i := range max(1, n/watchesOfAClient) {
		client, err := s.Connection(fmt.Sprint(group, "-", i), group)
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	var open atomic.Int64
	err := live.Times(c.ctx, 16, n, func(_ context.Context, i int) error {
		opened := make(chan struct{})
		client := c.clients[i%len(c.clients)]
		path := fmt.Sprintf("%s?watch=true&timeoutSeconds=3600&fieldSelector=metadata.name%%3Dc%d", path, i%watchedMaps)
		c.done.Go(func() {
			err := client.Watch(c.ctx, path, func() { open.Add(1); close(opened) }, c.hear)
			if err != nil {
				c.stop(err)
			}
		})
		select {
		case <-opened:
			return nil
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	})
	if err == nil && open.Load() != int64(n) {
		err = fmt.Errorf("%d of %d watches are open", open.Load(), n)
	}
	if err != nil {
		c.leave()
	}
	return c, err
}

const lastChange = "the-last-one"

// hear is one event of a watch.
func (c *watchers) hear(line []byte) error {
	var event struct {
		Type   string
		Object corev1.ConfigMap
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	if event.Type != "ADDED" && event.Type != "MODIFIED" {
		return fmt.Errorf("a watch said %s", line)
	}
	if event.Object.Labels[lastChange] != "" {
		c.heard.Add(1)
	}
	return nil
}

// worked is the processor time of the server while clients get, roles change, or both, and how many gets there were.
func (c *watchers) worked(getting, changing bool) (time.Duration, int64, error) {
	ctx, cancel := context.WithTimeout(c.ctx, watchedStretch)
	defer cancel()
	began := c.server.Worked()
	var gets atomic.Int64
	var all sync.WaitGroup
	paced := func(every, first time.Duration, once func() error) {
		all.Go(func() {
			next := time.NewTimer(first)
			defer next.Stop()
			for at := time.Now().Add(first); ; {
				select {
				case <-next.C:
				case <-ctx.Done():
					return
				}
				if err := once(); err != nil {
					c.stop(err)
					return
				}
				at = at.Add(every)
				next.Reset(time.Until(at))
			}
		})
	}
	if getting {
		for i, client := range c.clients {
			path := fmt.Sprintf("%s/c%d", maps(watchedIn), i%watchedMaps)
			paced(betweenGets, betweenGets*time.Duration(i)/time.Duration(len(c.clients)), func() error {
				gets.Add(1)
				return client.Must(c.ctx, http.MethodGet, path, nil)
			})
		}
	}
	if changing {
		const writers = 4
		for i := range writers {
			paced(time.Second*writers/policyWrites, time.Second*time.Duration(i)/policyWrites, c.change)
		}
	}
	all.Wait()
	if err := context.Cause(c.ctx); err != nil {
		return 0, 0, err
	}
	return c.server.Worked() - began, gets.Load(), nil
}

// change writes the role that changes.
func (c *watchers) change() error {
	body, err := json.Marshal(changingRole(int(c.written.Add(1))))
	if err != nil {
		return err
	}
	return c.server.Admin.Must(c.ctx, http.MethodPut, rbacPath+"clusterroles/changing", body)
}

// allHear changes every object once more and waits until every watch has heard of it.
func (c *watchers) allHear() error {
	for i := range watchedMaps {
		last := configMap(fmt.Sprint("c", i), 1)
		last.Labels = map[string]string{lastChange: "yes"}
		body, err := json.Marshal(last)
		if err != nil {
			return err
		}
		if err := c.server.Admin.Must(c.ctx, http.MethodPut, maps(watchedIn)+"/"+last.Name, body); err != nil {
			return err
		}
	}
	return eventually(c.ctx, func() error {
		if heard := c.heard.Load(); heard != c.watches {
			return fmt.Errorf("%d of %d watches have heard of the last change", heard, c.watches)
		}
		return context.Cause(c.ctx)
	})
}

// leave ends all watches.
func (c *watchers) leave() {
	c.stop(nil)
	c.done.Wait()
}
