package authorize

import "k8s.io/apimachinery/pkg/runtime"

// Namespaces finds a namespace for conditions that look at it.
type Namespaces interface {
	Namespace(name string) (runtime.Object, error)
}

// NamespacesFunc is a function that implements Namespaces.
type NamespacesFunc func(name string) (runtime.Object, error)

// Namespace implements Namespaces.
func (f NamespacesFunc) Namespace(name string) (runtime.Object, error) { return f(name) }
