package policycodec

import (
	"maps"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PutRole puts a role into its container like the view, without any check.
func PutRole(into *policy.Policy, r *authz.Role) {
	r = r.DeepCopy()
	roles := maps.Clone(into.Roles)
	if roles == nil {
		roles = map[string]policy.PolicyRole{}
	}
	roles[r.Name] = policy.PolicyRole{ObjectMeta: r.ObjectMeta, Rules: r.Rules}
	into.Roles = roles
}

// PutRoleBinding puts a role binding into its container like the view, without any check.
func PutRoleBinding(into *policy.PolicyBinding, entry *authz.RoleBinding) {
	entry = entry.DeepCopy()
	all := maps.Clone(into.RoleBindings)
	if all == nil {
		all = map[string]policy.PolicyRoleBinding{}
	}
	stored := policy.PolicyRoleBinding{
		ObjectMeta: entry.ObjectMeta, RoleName: entry.RoleRef.Name, UserNames: entry.UserNames, GroupNames: entry.GroupNames, Spellings: spellings(entry),
		NotBefore: entry.NotBefore, NotAfter: entry.NotAfter,
	}
	if ref := entry.RoleRef; ref.ClusterRole() {
		stored.RoleRef = &policy.PolicyRoleReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
	all[entry.Name] = stored
	into.RoleBindings = all
}

// RoleRefOf returns the role that a stored role binding binds, in a container of bindings to roles of a namespace.
func RoleRefOf(entry *policy.PolicyRoleBinding, namespace string) authz.RoleRef {
	if ref := entry.RoleRef; ref != nil {
		return authz.RoleRef{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
	return authz.RoleRef{Namespace: namespace, Name: entry.RoleName}
}

// HomeOf returns the container of a role binding, with defaults filled into its role reference.
func HomeOf(binding *authz.RoleBinding, masterNamespace string) string {
	SettleRoleRef(binding, masterNamespace)
	return Home(binding, masterNamespace)
}

// Home returns the container of a role binding with a complete role reference. Bindings of cluster roles are with those
// of roles of the master namespace.
func Home(binding *authz.RoleBinding, masterNamespace string) string {
	if binding.RoleRef.ClusterRole() {
		return masterNamespace
	}
	return binding.RoleRef.Namespace
}

// SettleRoleRef reads the original design's spelling into roleRef, and fills in the own namespace. The spelling is
// kept, so applying the file again changes nothing. Contradictions are left for validation to refuse.
func SettleRoleRef(b *authz.RoleBinding, masterNamespace string) {
	if b.RoleRef.Name == "" {
		b.RoleRef.Name = b.RoleName
	}
	if b.ReferencesGlobalRole && b.RoleRef.Namespace == "" {
		b.RoleRef.Namespace = masterNamespace
	}
	if b.RoleRef.Namespace == "" && !b.RoleRef.ClusterRole() {
		b.RoleRef.Namespace = b.Namespace
	}
}

// spellings are the fields of the original design that a role binding was written with.
func spellings(b *authz.RoleBinding) (used []string) {
	if b.RoleName != "" {
		used = append(used, policy.SpellingRoleName)
	}
	if b.ReferencesGlobalRole {
		used = append(used, policy.SpellingGlobalRole)
	}
	return used
}
