// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.auditregistration.v1alpha1
// +groupName=auditregistration.k8s.io

// Package v1alpha1 holds the kinds of the group auditregistration.k8s.io: audit sinks, which receive audit events at a
// level that their policy gives, and audit classes, the sets of rules that these policies refer to.
package v1alpha1
