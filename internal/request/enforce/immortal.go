package enforce

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
)

// Immortal refuses to delete a namespace that the server cannot do without: the one whose policy holds everywhere
// (PO-6).
type Immortal struct {
	Namespace string
}

var _ admission.ValidationInterface = Immortal{}

// Handles implements admission.Interface.
func (Immortal) Handles(op admission.Operation) bool { return op == admission.Delete }

// Validate applies to all users, as for kube-system.
func (i Immortal) Validate(_ context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	if resource := attrs.GetResource(); resource.Group != "" || resource.Resource != "namespaces" || attrs.GetSubresource() != "" || attrs.GetName() != i.Namespace {
		return nil
	}
	return forbidden(attrs, "this namespace cannot be deleted: its policy holds for the whole cluster")
}
