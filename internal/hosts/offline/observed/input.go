package observed

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Input is what all suggestions by the policy of a host have in common.
func Input(ctx context.Context, host *offline.Host) (in suggest.Input, err error) {
	u, err := offline.NewUniverse(host)
	if err != nil {
		return in, err
	}
	in = suggest.Input{Index: host.Snapshot().Rules.Throughout(ruleset.From(time.Now())), Server: host, Resources: u.Resources,
		Verbs: verbs.All(), Namespaces: u.Namespaces,
		Exclusive: exclusives(host), Holds: holding(ctx, host)}
	if in.Guards, err = guarding(host); err != nil {
		return in, err
	}
	for _, kind := range snapshot.Kinds() {
		objects, err := host.Files().Objects(kind)
		if err != nil {
			return in, err
		}
		in.Policies = append(in.Policies, snapshot.Of[*policyv1alpha1.Policy](objects)...)
		in.PolicyBindings = append(in.PolicyBindings, snapshot.Of[*policyv1alpha1.PolicyBinding](objects)...)
		in.RoleBindings = append(in.RoleBindings, snapshot.Of[*rbacv1.RoleBinding](objects)...)
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, snapshot.Of[*rbacv1.ClusterRoleBinding](objects)...)
	}
	return in, nil
}

// exclusives returns a function that reports whether a permission is exclusive anywhere: a general verb does not cover
// it.
func exclusives(host *offline.Host) func(permission string) bool {
	table := host.Snapshot().Fields
	if table == nil {
		return nil
	}
	all := map[string]bool{}
	for _, e := range table.Permissions() {
		all[e.Permission] = all[e.Permission] || e.Exclusive || e.Broken
	}
	return func(permission string) bool {
		exclusive, known := all[permission]
		return exclusive || !known
	}
}

// holding decides a where for an object that is there.
func holding(ctx context.Context, host *offline.Host) func(where string, object map[string]any) bool {
	return func(where string, object map[string]any) bool {
		program, issues := host.Conditions().Stored(where, expr.Where, "").Program()
		if len(issues) > 0 {
			return false
		}
		ok, err := program.Evaluate(ctx, &expr.Request{}, expr.Allow, (&compare.Witness{OldObject: object}).Data("DELETE", true))
		return ok && err == nil
	}
}

// guarding are the roles whose members protected attributes except.
func guarding(host *offline.Host) (map[ruleset.RoleRef]bool, error) {
	protections, err := host.Protections()
	if err != nil {
		return nil, err
	}
	roles := map[ruleset.RoleRef]bool{}
	for _, p := range protections {
		roles[p.Role] = true
	}
	return roles, nil
}
