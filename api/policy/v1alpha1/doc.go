// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.policy.v1alpha1
// +groupName=policy.proviso.dev

// Package v1alpha1 holds the stored kinds of the group policy.proviso.dev: the containers of roles and role bindings,
// field permissions and protected attributes. Only the external version exists; the same Go types serve as the internal
// version, so there is no conversion that could lose a restriction.
package v1alpha1
