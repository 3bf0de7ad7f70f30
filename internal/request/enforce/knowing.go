package enforce

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Knowing refuses to store shadow rules while an older replica would enforce them (TR-6).
type Knowing struct {
	// Replicas are the servers that have to know shadow rules.
	Replicas Replicas
}

// Replicas are the servers that serve the same objects.
type Replicas interface {
	// Need records that every replica has to know such rules, or returns why that is impossible.
	Need(ctx context.Context, dryRun bool) error
}

var _ admission.ValidationInterface = Knowing{}

// Handles implements admission.Interface.
func (Knowing) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks the objects of our groups that can hold such rules.
func (k Knowing) Validate(ctx context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	shadowed := false
	switch o := attrs.GetObject().(type) {
	case *authz.Role:
		shadowed = ruleset.HasShadow(o.Rules)
	case *policy.Policy:
		for name := range o.Roles {
			shadowed = shadowed || ruleset.HasShadow(o.Roles[name].Rules)
		}
	case *policy.ProtectedAttribute:
		shadowed = o.Enforcement.Shadowed()
	case *policy.ClusterProtectedAttribute:
		shadowed = o.Enforcement.Shadowed()
	case *policy.FieldPermission:
		shadowed = o.Spec.Enforcement.Shadowed()
	}
	if !shadowed {
		return nil
	}
	if err := k.Replicas.Need(ctx, attrs.IsDryRun()); err != nil {
		return apierrors.NewConflict(attrs.GetResource().GroupResource(), attrs.GetName(), errors.Join(err))
	}
	return nil
}
