package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationNamespaceUID is the UID of the namespace that an object of this group belongs to. The server sets it when
// the object is created, and nobody else can. What belongs to a namespace that is gone has no effect in one of the same
// name.
const AnnotationNamespaceUID = "policy.proviso.dev/namespace-uid"

// FinalizerNamespace keeps an object that is deleted with its namespace until the namespace itself is gone: what it
// denies or protects holds until then, and what it grants does not. The server sets and removes it.
const FinalizerNamespace = "policy.proviso.dev/namespace"

// BelongsTo reports whether an object belongs to the namespace with this UID, which was created then. What was stored
// before UIDs were kept belongs to a namespace that was there before it. What cannot be read does not say when it was
// made, and belongs to whichever namespace is there: it denies (SV-8), and only an admin removes it.
func BelongsTo(object metav1.Object, uid types.UID, created metav1.Time) bool {
	if carried := object.GetAnnotations()[AnnotationNamespaceUID]; carried != "" {
		return carried == string(uid)
	}
	made := object.GetCreationTimestamp()
	if made.IsZero() && object.GetAnnotations()[AnnotationUnreadable] != "" {
		return true
	}
	return !created.After(made.Time)
}

// Released reports whether an object was deleted with its namespace, and waits for that to be gone.
func Released(object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil && slices.Contains(object.GetFinalizers(), FinalizerNamespace)
}
