package offline

import (
	"fmt"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Protection is a protected attribute: what it says, and the role whose members it excepts.
type Protection struct {
	Said any
	Role ruleset.RoleRef
}

// Protections are the protected attributes, by kind and name.
func (h *Host) Protections() (map[string]Protection, error) {
	all := map[string]Protection{}
	local, err := h.Files().Objects(snapshot.ProtectedAttributes)
	if err != nil {
		return nil, err
	}
	for _, p := range snapshot.Of[*policyv1alpha1.ProtectedAttribute](local) {
		role := enforce.RoleRef(protectedattr.FromNamespaced(p).Role)
		said := []any{p.AttributeKind, p.AttributeName, p.ProtectedValues, p.UnlistedValues, p.Resources, p.Scope, p.RoleRef, p.Enforcement}
		all[fmt.Sprintf("ProtectedAttribute %s/%s", p.Namespace, p.Name)] = Protection{said, role}
	}
	global, err := h.Files().Objects(snapshot.ClusterProtectedAttributes)
	if err != nil {
		return nil, err
	}
	for _, p := range snapshot.Of[*policyv1alpha1.ClusterProtectedAttribute](global) {
		said := []any{p.AttributeKind, p.AttributeName, p.ProtectedValues, p.UnlistedValues, p.Resources, p.Scope, p.RoleRef, p.Enforcement}
		all["ClusterProtectedAttribute "+p.Name] = Protection{said, enforce.RoleRef(protectedattr.FromCluster(p).Role)}
	}
	return all, nil
}
