package enforce

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/state/policycodec"
)

// update checks for changes that make a controller delete the object, or that complete a deletion.
func (c *cause) update(ctx context.Context) error {
	was := c.old()
	if was == nil || c.GetObject() == nil {
		return nil
	}
	is, err := meta.Accessor(c.GetObject())
	if err != nil {
		return nil //nolint:nilerr // without metadata it has no owners
	}
	if c.GetResource().GroupResource() == definitionResource {
		if err := c.unserves(ctx); err != nil {
			return err
		}
		if err := c.reshapes(ctx); err != nil {
			return err
		}
	}
	if err := c.marked(ctx, was, is); err != nil {
		return err
	}
	if err := c.ends(ctx); err != nil {
		return err
	}
	if err := c.aggregates(ctx, was.GetLabels(), is.GetLabels()); err != nil {
		return err
	}
	rehung := !slices.EqualFunc(was.GetOwnerReferences(), is.GetOwnerReferences(), sameOwner)
	ends := was.GetDeletionTimestamp() != nil && (c.GetSubresource() == "finalize" || !slices.Equal(was.GetFinalizers(), is.GetFinalizers()))
	if !rehung && !ends {
		if keeps(was, is) {
			return nil
		}
		return c.owned(ctx, was)
	}
	if why, denied := c.itself(ctx); denied {
		what := "changing metadata.ownerReferences has the garbage collector delete the object"
		if !rehung {
			what = "the object is being deleted, and removing its finalizers completes that"
		}
		return forbidden(c, what+"; a rule denies you to delete it: "+why)
	}
	if c.GetResource().GroupResource() == namespaceResource {
		// The denies in the namespace end with it. The garbage collector deletes it, too, if its owner is gone.
		if err := c.namespace(ctx); err != nil {
			return err
		}
	}
	if !rehung && c.mayOrphan() && slices.Contains(is.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		return nil // if it is deleted because of an owner, the garbage collector may override the finalizer
	}
	// Without the orphan finalizer, the dependents of the object are deleted with it, whichever user deletes it.
	return c.owned(ctx, was)
}

// owned refuses if the caller is denied `delete` on an object that the one of the request owns.
func (c *cause) owned(ctx context.Context, was metav1.Object) error {
	return c.dependents(ctx, c.snapshot().Served.OwnKind(c.GetResource().GroupResource()), was.GetUID())
}

func sameOwner(a, b metav1.OwnerReference) bool {
	flag := func(p *bool) bool { return p != nil && *p }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		flag(a.Controller) == flag(b.Controller) && flag(a.BlockOwnerDeletion) == flag(b.BlockOwnerDeletion)
}

// delete checks what is deleted together with the object.
func (c *cause) delete(ctx context.Context) error {
	if c.GetSubresource() != "" {
		return nil
	}
	switch c.GetResource().GroupResource() {
	case namespaceResource:
		if err := c.namespace(ctx); err != nil {
			return err
		}
	case definitionResource:
		if err := c.definition(ctx); err != nil {
			return err
		}
	}
	was := c.old()
	if was != nil {
		if err := c.aggregates(ctx, was.GetLabels()); err != nil {
			return err
		}
	}
	if c.GetName() == "" && was != nil && c.reached(c.GetNamespace()) {
		// A right to delete the collection does not include objects on which `delete` is denied.
		if why, denied := c.itself(ctx); denied {
			return forbidden(c, "this would delete an object of the collection, and a rule denies you to delete it: "+why)
		}
	}
	if was == nil {
		if !c.reached(c.GetNamespace()) {
			return nil
		}
		return forbidden(c, "rules deny you some deletes, and the server cannot tell what would be deleted with the object")
	}
	if c.orphans(was) {
		return nil
	}
	return c.owned(ctx, was)
}

// orphans reports whether the dependents of the object stay. The default propagation counts as deleting them, although
// jobs and replication controllers orphan theirs by default: a caller who wants that has to say so. Deleting a
// definition adds no finalizer for it, so only one that has it already orphans.
func (c *cause) orphans(was metav1.Object) bool {
	stays := slices.Contains(was.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if !c.mayOrphan() || c.GetResource().GroupResource() == definitionResource && !stays {
		return false
	}
	if options, ok := c.GetOperationOptions().(*metav1.DeleteOptions); ok && options != nil {
		switch {
		case options.OrphanDependents != nil: // old clients say it like this
			return *options.OrphanDependents
		case options.PropagationPolicy != nil:
			return *options.PropagationPolicy == metav1.DeletePropagationOrphan
		}
	}
	return stays
}

// mayOrphan reports whether the storage of the object can keep its dependents: by adding or keeping a finalizer.
func (c *cause) mayOrphan() bool {
	return c.Orphans && honoursOrphan(c.GetResource().GroupResource(), c.GetOldObject())
}

// honoursOrphan reports whether a resource has a store of Kubernetes that honours propagationPolicy Orphan. All
// resources of Kubernetes and custom resources have one. Events are stored without finalizers. Nothing is assumed of
// our own resources: roles are entries of a container, and policies are deleted in another way with their namespace.
func honoursOrphan(resource schema.GroupResource, object runtime.Object) bool {
	switch {
	case slices.Contains(kubernetesGroups, resource.Group):
		return resource.Resource != "events"
	case slices.Contains(policycodec.Groups(), resource.Group):
		return false
	}
	_, custom := object.(*unstructured.Unstructured)
	return custom
}

// kubernetesGroups are the API groups that kube-apiserver stores.
var kubernetesGroups = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
	"certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io", "imagepolicy.k8s.io", "internal.apiserver.k8s.io", "lifecycle.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// reached reports whether a deny of delete could apply to the caller where an object's dependents can be: in its
// namespace, or everywhere if it has none.
func (c *cause) reached(namespace string) bool {
	rules := c.snapshot().Rules
	return rules.DeniesDelete(c.GetUserInfo(), namespace) || namespace == "" && len(rules.DeniesDeleteIn(c.GetUserInfo())) > 0
}
