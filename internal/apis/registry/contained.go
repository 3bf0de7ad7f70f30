package registry

import (
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PutRole puts a role into its container as the view does. Nothing is checked.
func PutRole(into *policy.Policy, role *authz.Role, masterNamespace string) {
	roleLayout(masterNamespace).put(into, role)
}

// PutRoleBinding puts a role binding into its container as the view does. Nothing is checked.
func PutRoleBinding(into *policy.PolicyBinding, binding *authz.RoleBinding) {
	roleBindingLayout().put(into, binding)
}

// HomeOf names the container of a role binding, after what its role reference leaves open was filled in.
func HomeOf(binding *authz.RoleBinding, masterNamespace string) string {
	SettleRoleRef(binding, masterNamespace)
	return binding.RoleRef.Namespace
}
