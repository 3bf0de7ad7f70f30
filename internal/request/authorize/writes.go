package authorize

import "k8s.io/apiserver/pkg/authorization/authorizer"

// Writes tells the requests that can set labels, annotations and fields. Deleting, connecting and impersonating set
// nothing, so that a review of them need not say what they must not set.
func Writes(attrs authorizer.Attributes) bool {
	switch attrs.GetVerb() {
	case "create", "update", "patch":
		return attrs.IsResourceRequest() && !isConnect(attrs)
	}
	return false
}
