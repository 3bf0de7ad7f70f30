package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/bench/live"
)

const (
	hiddenSecrets = 1000
	vault         = "/api/v1/namespaces/vault/secrets"
)

// hiddenReads is a list of secrets whose data is hidden, by a user who does not see it and by one who does. The peer is
// the same list by an admin, from whom nothing is hidden. HF-10 allows 1.15 and 1.05 times as much, ratios of 0.87 and
// 0.95.
func hiddenReads(b *bench) error {
	type kind struct{ name, user string }
	kinds := []kind{{"e2e-list-hidden", "blind"}, {"e2e-list-revealed", "sighted"}}
	if !slices.ContainsFunc(kinds, func(k kind) bool { return b.wantsRead(k.name) }) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "hidden")
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := hide(b.ctx, s.Admin, b.clients); err != nil {
		return err
	}
	for _, k := range kinds {
		user, err := s.User(k.user)
		if err != nil {
			return err
		}
		if err := eventually(b.ctx, func() error { return user.Must(b.ctx, http.MethodGet, vault, nil) }); err != nil {
			return err
		}
		if err := b.compareReads(s, k.name, hiddenSecrets, readBy{user, vault}, "admin", readBy{s.Admin, vault}); err != nil {
			return err
		}
	}
	return nil
}

// hide makes secrets, hides their data, and lets two users read them, of whom one sees it.
func hide(ctx context.Context, admin *live.Client, clients int) error {
	const verb = "reveal:example.com/secretData"
	for name, verbs := range map[string][]string{"blind": {"get", "list"}, "sighted": {"get", "list", verb}} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"secrets"}}}}
		if err := admin.Create(ctx, rbacPath+"clusterroles", role); err != nil {
			return err
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}
		if err := admin.Create(ctx, rbacPath+"clusterrolebindings", binding); err != nil {
			return err
		}
	}
	hides := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "secret-data"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"secrets"}, Field: ".data", Permission: "example.com/secretData", ReadExclusive: true}}
	if err := admin.Create(ctx, "/apis/policy.proviso.dev/v1alpha1/fieldpermissions", hides); err != nil {
		return err
	}
	if err := admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}}); err != nil {
		return err
	}
	return live.Times(ctx, clients, hiddenSecrets, func(ctx context.Context, i int) error {
		return admin.Create(ctx, vault, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, Data: map[string][]byte{"password": make([]byte, 64)}})
	})
}
