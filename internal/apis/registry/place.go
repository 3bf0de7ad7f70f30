package registry

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/namespacegc"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/selfclient"
)

// places knows which namespace the stored objects belong to.
type places struct {
	namespaces namespacegc.Namespaces
	// master is the namespace that cannot be deleted: what is in it always belongs to it.
	master string
}

// stale reports whether the namespace that an object belongs to is gone, so that the object counts no more (PO-20).
func (p places) stale(ctx context.Context, object metav1.Object) (bool, error) {
	name := object.GetNamespace()
	if name == p.master || namespacegc.Belongs(object, p.namespaces.Known(name)) {
		return false, nil
	}
	live, err := p.live(ctx, name)
	if err != nil {
		return false, err
	}
	return !namespacegc.Belongs(object, live), nil
}

func (p places) live(ctx context.Context, name string) (*namespacegc.Namespace, error) {
	live, err := p.namespaces.Live(ctx, name)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot tell what has become of namespace %q: %w", name, err))
	}
	return live, nil
}

// hidden reports whether an object counts as deleted for all callers except the server itself: it is stale, or it is
// deleted with its namespace, which must not wait for it. A quarantined object cannot be written, so it cannot be
// released; it is deleted with its namespace nevertheless.
func (p places) hidden(ctx context.Context, object metav1.Object) (bool, error) {
	if policy.Released(object) {
		return true, nil
	}
	if o, ok := object.(runtime.Object); ok && policycodec.Quarantined(o) != "" && object.GetNamespace() != p.master {
		if ns := p.namespaces.Known(object.GetNamespace()); ns != nil && ns.Terminating && namespacegc.Belongs(object, ns) {
			return true, nil
		}
	}
	return p.stale(ctx, object)
}

// claim marks a new object as one of the namespace as it is now.
func (p places) claim(ctx context.Context, resource schema.GroupResource, object metav1.Object) error {
	name := request.NamespaceValue(ctx)
	live, err := p.live(ctx, name)
	switch {
	case err != nil:
		return err
	case live == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	case live.Terminating:
		return apierrors.NewForbidden(resource, object.GetName(), fmt.Errorf("namespace %q is being deleted: nothing can be created in it", name))
	}
	annotations := map[string]string{}
	for key, value := range object.GetAnnotations() {
		annotations[key] = value
	}
	annotations[policy.AnnotationNamespaceUID] = string(live.UID)
	object.SetAnnotations(annotations)
	return nil
}

// keepPlace lets only the server say to which namespace an object belongs, or whether it waits for that to be
// gone.
func keepPlace(ctx context.Context, object, old metav1.Object) {
	if selfclient.IsServer(ctx) {
		return
	}
	if uid, had := old.GetAnnotations()[policy.AnnotationNamespaceUID]; had || object.GetAnnotations()[policy.AnnotationNamespaceUID] != "" {
		annotations := map[string]string{}
		for key, value := range object.GetAnnotations() {
			annotations[key] = value
		}
		delete(annotations, policy.AnnotationNamespaceUID)
		if had {
			annotations[policy.AnnotationNamespaceUID] = uid
		}
		object.SetAnnotations(annotations)
	}
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == policy.FinalizerNamespace })
	if slices.Contains(old.GetFinalizers(), policy.FinalizerNamespace) {
		finalizers = append(finalizers, policy.FinalizerNamespace)
	}
	if !slices.Equal(finalizers, object.GetFinalizers()) {
		object.SetFinalizers(finalizers)
	}
}
