// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.authorization.v1alpha1
// +groupName=authorization.k8s.io

// Package v1alpha1 holds the review of authorization.k8s.io/v1alpha1 that evaluates the conditions of a decision.
package v1alpha1
