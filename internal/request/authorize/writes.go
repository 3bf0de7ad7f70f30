package authorize

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
)

// Writes reports whether a request can set labels, annotations and fields. Deleting, connecting and impersonating set
// nothing, so a review of them need not say what they must not set.
func Writes(attrs authorizer.Attributes) bool {
	return verbs.Stores(attrs.GetVerb()) && attrs.IsResourceRequest() && !isConnect(attrs)
}
