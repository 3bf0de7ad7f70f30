package enforce

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/requestctx"
)

// PinName is the name of Pin in metrics.
const PinName = "WriteEffects"

// Pin runs last in mutating admission and sees what validation cannot. It pins a Binding to the pod with which the
// enforcer will compare it, and records whether a Scale changes who manages the scale field.
type Pin struct {
	Behind Behind
}

var _ admission.MutationInterface = (*Pin)(nil)

// Handles implements admission.Interface.
func (*Pin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.MutationInterface.
func (p *Pin) Admit(ctx context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	holder := requestctx.From(ctx)
	switch {
	case holder == nil || attrs.GetObject() == nil:
		return nil
	case isBinding(attrs):
		return p.pinBinding(ctx, holder, attrs)
	case attrs.GetSubresource() == "scale" && attrs.GetOldObject() != nil:
		return noteClaim(ctx, attrs)
	}
	return nil
}

// pinBinding sets the preconditions that the registry checks when it merges the Binding into the pod.
func (p *Pin) pinBinding(ctx context.Context, holder *requestctx.State, attrs admission.Attributes) error {
	binding, err := meta.Accessor(attrs.GetObject())
	if err != nil {
		return err
	}
	if binding.GetResourceVersion() != "" || !comparesPod(holder, attrs, binding.GetLabels(), binding.GetAnnotations()) {
		return nil
	}
	pod, err := p.Behind.Pod(ctx, attrs.GetNamespace(), binding.GetName())
	if apierrors.IsNotFound(err) {
		return nil // the registry will say so
	}
	if err != nil {
		return err
	}
	binding.SetResourceVersion(pod.ResourceVersion)
	return nil
}

// comparesPod reports whether the enforcer has to know the pod behind a Binding.
func comparesPod(holder *requestctx.State, attrs admission.Attributes, labels, annotations map[string]string) bool {
	if len(labels) == 0 && len(annotations) == 0 {
		return false
	}
	snap := holder.Snapshot
	if snap.Protect.Touches(labels, annotations) {
		return true
	}
	return snap.Fields != nil && (!holder.Get(requestctx.Request).IsAllowed() || snap.Fields.Guards(fieldTarget(snap.Served, attrs)))
}

// noteClaim tells the enforcer that the managers of a scale field change, which no Scale in validating admission shows.
func noteClaim(ctx context.Context, attrs admission.Attributes) error {
	new, err := meta.Accessor(attrs.GetObject())
	if err != nil {
		return err
	}
	old, err := meta.Accessor(attrs.GetOldObject())
	if err != nil {
		return err
	}
	if !fieldperm.SameManagers(old.GetManagedFields(), new.GetManagedFields()) {
		requestctx.NotesOf(ctx).Claim()
	}
	return nil
}

// copies reports whether the caller creates the object from a template that was checked already (FP-16).
func copies(attrs admission.Attributes) bool {
	u := attrs.GetUserInfo()
	if u == nil {
		return false
	}
	r := attrs.GetResource()
	if protectedattr.Copies(u.GetName(), r.Group, r.Resource, attrs.GetSubresource()) {
		return true
	}
	req := &protectedattr.Request{User: u.GetName(), Groups: u.GetGroups(), Group: r.Group, Resource: r.Resource}
	return attrs.GetSubresource() == "" && protectedattr.IsMirrorPod(req, body(attrs.GetOldObject()), body(attrs.GetObject()))
}
