// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.access.v1alpha1
// +groupName=access.proviso.dev

// Package v1alpha1 holds the kinds of the group access.proviso.dev: rules by which people ask for rights that end, the
// requests, and tokens that can only do less than their user. Only the external version exists; the same Go types serve
// as the internal version, so there is no conversion that could lose a restriction.
package v1alpha1
