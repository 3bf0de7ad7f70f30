package questions

import "proviso.dev/proviso/internal/engine/verbs"

// Namespaces is the resource whose objects are namespaces.
const Namespaces = "namespaces"

// Target is what a request is about.
type Target struct {
	Verb, Resource, Subresource, Namespace, Name string
}

// IsNamespace reports whether a request is for one Namespace object, which its URL names. Kubernetes decides that by
// the name of the resource, whatever its group.
func (t Target) IsNamespace() bool {
	return t.Resource == Namespaces && (t.Subresource != "" || verbs.HasName(t.Verb))
}

// InNamespace returns the namespace of the request. A request for a Namespace object counts as made in that namespace:
// a role in it grants the request.
func (t Target) InNamespace() string {
	if t.IsNamespace() && t.Name != "" {
		return t.Name
	}
	return t.Namespace
}
