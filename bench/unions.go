package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

const (
	// unionsOn switches unions on.
	unionsOn = "--feature-gates=UnionReads=true"
	// unionNamespaces have so many objects each. A user with rights in few of them sees as many as the library has.
	unionNamespaces, unionObjects, unionFew = 100, 30, 10
	allMaps                                 = "/api/v1/configmaps"
)

// unionReads is a list over all namespaces by users with rights in some: few, which are read one by one, and all, so
// everything is looked at. The peer is a list of as many objects by an admin. RD-14 allows 1.3 times as much, a ratio
// of 0.77.
func unionReads(b *bench) error {
	type kind struct {
		name, user, path, peer string
		size                   int
	}
	kinds := []kind{
		{"e2e-list-union-few", "few", allMaps, maps(library), unionFew * unionObjects},
		{"e2e-list-union-wide", "wide", allMaps, allMaps, unionNamespaces * unionObjects},
		{"e2e-page-union-wide", "wide", allMaps + "?limit=100", allMaps + "?limit=100", 100},
	}
	if !slices.ContainsFunc(kinds, func(k kind) bool { return b.wantsRead(k.name) }) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "unions", unionsOn)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := spreadOut(b.ctx, s.Admin, b.clients); err != nil {
		return err
	}
	users := map[string]*live.Client{}
	for _, name := range []string{"few", "wide"} {
		if users[name], err = s.User(name); err != nil {
			return err
		}
		if err := eventually(b.ctx, func() error { return users[name].Must(b.ctx, http.MethodGet, allMaps, nil) }); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		if err := b.compareReads(s, k.name, k.size, readBy{users[k.user], k.path}, "admin", readBy{s.Admin, k.peer}); err != nil {
			return err
		}
	}
	return nil
}

// spreadOut makes namespaces with objects, binds few and wide to a role in them, and fills the library.
func spreadOut(ctx context.Context, admin *live.Client, clients int) error {
	if err := admin.Create(ctx, rbacPath+"clusterroles", mapReaders("spread")); err != nil {
		return err
	}
	err := live.Times(ctx, clients, unionNamespaces, func(ctx context.Context, i int) error {
		users := []string{"wide"}
		if i%(unionNamespaces/unionFew) == 0 {
			users = append(users, "few")
		}
		ns := fmt.Sprintf("spread-%03d", i)
		if err := bound(ctx, admin, ns, "spread", "User", users...); err != nil {
			return err
		}
		return fill(ctx, admin, 1, ns, unionObjects)
	})
	if err != nil {
		return err
	}
	if err := admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: library}}); err != nil {
		return err
	}
	return fill(ctx, admin, clients, library, unionFew*unionObjects)
}

func fill(ctx context.Context, admin *live.Client, clients int, ns string, n int) error {
	return live.Times(ctx, clients, n, func(ctx context.Context, i int) error {
		return admin.Create(ctx, maps(ns), configMap(fmt.Sprint("c", i), 0))
	})
}

func mapReaders(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
}

// bound makes a namespace and binds a cluster role to subjects in it.
func bound(ctx context.Context, admin *live.Client, ns, role, kind string, names ...string) error {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	for _, name := range names {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: kind, Name: name})
	}
	if err := admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		return err
	}
	return admin.Create(ctx, rbacPath+"namespaces/"+ns+"/rolebindings", binding)
}

// watchingUnions is a live server with n watches over all namespaces by users with rights in three, while roles change
// that nobody has, beside as many watches with the same selectors by users who may watch everything: what a get costs
// the server, and what it does without gets. RD-14 allows 1.2 times as much, a ratio of 0.83.
func watchingUnions(b *bench, n int) error {
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "watched", unionsOn)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := s.Admin.Create(b.ctx, rbacPath+"clusterroles", mapReaders("spread")); err != nil {
		return err
	}
	for _, ns := range []string{watchedIn, "spread-1", "spread-2"} {
		if err := bound(b.ctx, s.Admin, ns, "spread", "Group", "united"); err != nil {
			return err
		}
	}
	if err := fill(b.ctx, s.Admin, 8, watchedIn, watchedMaps); err != nil {
		return err
	}
	if err := letWatch(b.ctx, s); err != nil {
		return err
	}
	costs := map[string][2][]float64{} // by group: of a get, and of a second without gets
	for turn := range max(1, b.turns/3) {
		for i := range 2 {
			group := []string{"united", "watchers"}[(turn+i)%2]
			got, err := unitedTurn(b.ctx, s, n, group)
			if err != nil {
				return fmt.Errorf("%s: %w", group, err)
			}
			all := costs[group]
			all[0], all[1] = append(all[0], got[0]), append(all[1], got[1])
			costs[group] = all
		}
	}
	if err := b.pair("unions-watches-get-cpu", n, "ns", costs["united"][0], "plain-selectors", costs["watchers"][0]); err != nil {
		return err
	}
	return b.pair("unions-watches-idle-cpu", n, "ns/s", costs["united"][1], "plain-selectors", costs["watchers"][1])
}

// unitedTurn opens the watches of one group and measures.
func unitedTurn(ctx context.Context, s *live.Server, n int, group string) (costs [2]float64, err error) {
	c, err := gather(ctx, s, n, group, allMaps)
	if err != nil {
		return costs, err
	}
	defer c.leave()
	without, _, err := c.worked(false, true)
	if err != nil {
		return costs, err
	}
	with, gets, err := c.worked(true, true)
	if err != nil {
		return costs, err
	}
	if err := c.allHear(); err != nil {
		return costs, err
	}
	return [2]float64{float64(with-without) / float64(gets), float64(without) / watchedStretch.Seconds()}, nil
}
