// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.proviso.authorization.v1alpha1
// +groupName=authorization.proviso.dev

// Package v1alpha1 holds the views and questions of the group authorization.proviso.dev: roles and role bindings, which
// are stored inside the containers of policy.proviso.dev, and the access reviews and the table of field permissions,
// which are stored nowhere.
package v1alpha1
