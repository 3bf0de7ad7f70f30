// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.authorization.v1
// +groupName=authorization.k8s.io

// Package v1 holds the access reviews of authorization.k8s.io/v1 as Proviso serves them: Kubernetes' own types, with
// the fields in which a caller asks for conditions and gets them.
//
// The additional fields exist in JSON and CBOR. In protobuf the types are, byte for byte, those of Kubernetes: a client
// that was built from k8s.io/api sees no difference.
package v1
