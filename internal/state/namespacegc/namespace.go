package namespacegc

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// Namespace is what is known about a namespace.
type Namespace struct {
	UID         types.UID
	Created     metav1.Time
	Terminating bool
}

// Namespaces knows the existing namespaces.
type Namespaces interface {
	// Known returns the namespace as it was a moment ago, or nil.
	Known(name string) *Namespace
	// Live returns the namespace as it is stored, or nil if there is none.
	Live(ctx context.Context, name string) (*Namespace, error)
}

// Belongs reports whether an object belongs to this very namespace, which may be nil.
func Belongs(object metav1.Object, namespace *Namespace) bool {
	return namespace != nil && policy.BelongsTo(object, namespace.UID, namespace.Created)
}
