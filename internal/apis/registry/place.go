package registry

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// Namespace is what is known of a namespace.
type Namespace struct {
	UID         types.UID
	Created     metav1.Time
	Terminating bool
}

// Namespaces says which namespaces there are.
type Namespaces interface {
	// Known is the namespace as it was a moment ago, or nil.
	Known(name string) *Namespace
	// Live is the namespace as it is stored, or nil if there is none.
	Live(ctx context.Context, name string) (*Namespace, error)
}

// Belongs tells whether an object belongs to this very namespace, which may be nil.
func Belongs(object metav1.Object, namespace *Namespace) bool {
	return namespace != nil && policy.BelongsTo(object, namespace.UID, namespace.Created)
}

// places knows which namespace the stored objects belong to.
type places struct {
	namespaces Namespaces
	// master is the namespace that cannot be deleted: what is in it always belongs to it.
	master string
}

// stale tells whether the namespace that an object belongs to is gone, so that the object counts no more (PO-20).
func (p places) stale(ctx context.Context, object metav1.Object) (bool, error) {
	name := object.GetNamespace()
	if name == p.master || Belongs(object, p.namespaces.Known(name)) {
		return false, nil
	}
	live, err := p.live(ctx, name)
	if err != nil {
		return false, err
	}
	return !Belongs(object, live), nil
}

func (p places) live(ctx context.Context, name string) (*Namespace, error) {
	live, err := p.namespaces.Live(ctx, name)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot tell what has become of namespace %q: %w", name, err))
	}
	return live, nil
}

// hidden tells whether an object is as good as gone for everybody but the server itself: it is stale, or it goes with
// its namespace, which must not wait for it. What is quarantined cannot be written, and so it cannot be released; it
// goes with its namespace all the same.
func (p places) hidden(ctx context.Context, object metav1.Object) (bool, error) {
	if policy.Released(object) {
		return true, nil
	}
	if o, ok := object.(runtime.Object); ok && Quarantined(o) != "" && object.GetNamespace() != p.master {
		if ns := p.namespaces.Known(object.GetNamespace()); ns != nil && ns.Terminating && Belongs(object, ns) {
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

// keepPlace lets nobody but the server say to which namespace an object belongs, or whether it waits for that to be
// gone.
func keepPlace(ctx context.Context, object, old metav1.Object) {
	if insider(ctx) {
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

type ownKey struct{}

// AsServer marks a request as one that the server makes for its own policy. The controllers that run beside it use the
// same loopback identity, and see what everybody sees.
func AsServer(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// insider tells those requests.
func insider(ctx context.Context) bool {
	own, _ := ctx.Value(ownKey{}).(bool)
	u, ok := request.UserFrom(ctx)
	return own && ok && u.GetName() == user.APIServerUser && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
