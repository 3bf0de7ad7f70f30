package enforce

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/owners"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Effects refuses requests that would make a controller delete an object on which the caller is denied `delete`: the
// garbage collector, the namespace controller, the eviction endpoint (PO-20). Only a deny counts: a caller who is
// neither allowed nor denied to delete an object may still delete its owner, as in Kubernetes. For a caller without any
// deny of delete this costs one look at their roles.
type Effects struct {
	// Denials asks the chain what is denied.
	Denials Denials
	// Stored reads what is stored.
	Stored Stored
	// Owners finds the dependents of an owner; without it, all objects that the caller's denies could be about are
	// listed.
	Owners Owners
	// Orphans is true if the server takes part in garbage collection: otherwise it ignores propagationPolicy Orphan.
	Orphans bool
	// Expires is true if the server deletes role bindings of Policy some time after their end.
	Expires bool
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
}

// Denials asks the chain what is denied.
type Denials interface {
	// Denied reports whether a request is denied.
	Denied(ctx context.Context, attrs authorizer.Attributes, data authorizer.ConditionsData) (requestctx.Outcome, bool)
	// MayBeDenied reports whether it would be denied for some object.
	MayBeDenied(ctx context.Context, attrs authorizer.Attributes) bool
}

// Stored reads objects as the server itself, for every caller.
type Stored interface {
	// List returns the metadata of at most limit objects, of one namespace or ("") of all, and whether there are more.
	List(ctx context.Context, resource schema.GroupVersionResource, namespace string, limit int) (_ []metav1.PartialObjectMetadata, more bool, _ error)
	// Objects returns at most limit objects of all namespaces, and whether there are more.
	Objects(ctx context.Context, resource schema.GroupVersionResource, limit int) (_ []unstructured.Unstructured, more bool, _ error)
	Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
}

// Owners finds the dependents of an owner.
type Owners interface {
	// Knows reports whether the objects of a resource are indexed.
	Knows(resource schema.GroupResource) bool
	// Owned returns the objects that name an owner, whose kind has this name in any group.
	Owned(ctx context.Context, kind string, owner types.UID) ([]owners.Object, error)
}

// check checks the consequences of a request. It runs when everything else about the request is allowed.
func (e *Effects) check(ctx context.Context, holder *requestctx.State, known *facts, objects admission.ObjectInterfaces) (by denial.By, err error) {
	if e == nil || holder.Snapshot.Rules == nil || known.GetUserInfo() == nil || slices.Contains(known.GetUserInfo().GetGroups(), user.SystemPrivilegedGroup) {
		return by, nil // no deny applies to the server itself and system:masters
	}
	c := &cause{Effects: e, holder: holder, facts: known, objects: objects}
	switch known.GetOperation() {
	case admission.Create:
		if err = c.eviction(ctx); err == nil {
			err = c.gathered(ctx)
		}
	case admission.Update:
		err = c.update(ctx)
	case admission.Delete:
		err = c.delete(ctx)
	}
	c.by.Stage = denial.Effects
	return c.by, err
}

// cause is one request whose effects are checked.
type cause struct {
	*Effects
	*facts
	holder  *requestctx.State
	objects admission.ObjectInterfaces
	// by is the most recent deny.
	by denial.By
}

func (c *cause) snapshot() *snapshot.Snapshot { return c.holder.Snapshot }

// deletes returns the request with which the caller would delete an object directly.
func (c *cause) deletes(resource schema.GroupVersionResource, namespace, name string) authorizer.AttributesRecord {
	return deletes(c.GetUserInfo(), resource, namespace, name)
}

func deletes(u user.Info, resource schema.GroupVersionResource, namespace, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: u, Verb: "delete", Namespace: namespace, APIGroup: resource.Group, APIVersion: resource.Version,
		Resource: resource.Resource, Name: name, ResourceRequest: true,
	}
}

// denied reports whether the caller is denied `delete` on a stored object, and why.
func (c *cause) denied(ctx context.Context, kind schema.GroupVersionKind, request authorizer.AttributesRecord, stored expr.Objects) (string, bool) {
	resource := schema.GroupVersionResource{Group: request.APIGroup, Version: request.APIVersion, Resource: request.Resource}
	out, denied := c.Denials.Denied(ctx, request, &facts{
		Attributes: admission.NewAttributesRecord(nil, nil, kind, request.Namespace, request.Name, resource, "", admission.Delete,
			&metav1.DeleteOptions{}, c.IsDryRun(), c.GetUserInfo()),
		data: c.deletion(ctx, request.Namespace, stored),
	})
	if denied {
		c.blame(out, request)
	}
	return out.Reason, denied
}

// blame records the deny, and what the caller can ask about it.
func (c *cause) blame(out requestctx.Outcome, request authorizer.AttributesRecord) {
	if c.by.Rules = out.Conditions; len(c.by.Rules) == 0 {
		c.by.Rules = []string{out.Reason}
	}
	request.Name = "" // the caller need not know it
	c.by.Ask = &denial.Question{Attributes: request}
}

// deletion returns what conditions see of the deletion of a stored object.
func (c *cause) deletion(ctx context.Context, namespace string, stored expr.Objects) *expr.Data {
	cfg := expr.DataConfig{Operation: string(admission.Delete), Objects: stored, OwnKind: true, Options: &metav1.DeleteOptions{}, Shared: expr.BudgetOf(ctx)}
	if namespace != "" && c.Namespaces != nil {
		cfg.Namespace = func() (runtime.Object, error) { return c.Namespaces.Namespace(namespace) }
	}
	return expr.NewData(cfg)
}

// old returns the metadata of the stored object, or nil if the request has none.
func (c *cause) old() metav1.Object {
	if c.GetOldObject() == nil {
		return nil
	}
	m, err := meta.Accessor(c.GetOldObject())
	if err != nil {
		return nil
	}
	return m
}

// name returns the name of the object; empty for a collection.
func (c *cause) name() string {
	if was := c.old(); c.GetName() == "" && was != nil {
		return was.GetName()
	}
	return c.GetName()
}

// itself reports whether the caller is denied `delete` on the object of the request.
func (c *cause) itself(ctx context.Context) (string, bool) {
	namespace := c.GetNamespace()
	if c.GetResource().GroupResource() == namespaceResource {
		namespace = c.name() // as requests for a namespace have it
	}
	return c.denied(ctx, c.GetKind(), c.deletes(c.GetResource(), namespace, c.name()),
		onlyOld{(&versions{attrs: c.facts.Attributes, objects: c.objects, served: c.snapshot().Served}).OldObject})
}

// onlyOld is a deletion's objects: there is only an old one.
type onlyOld struct {
	old func(apiVersion string) (runtime.Object, error)
}

func (onlyOld) Object(string) (runtime.Object, error)              { return nil, nil }
func (o onlyOld) OldObject(version string) (runtime.Object, error) { return o.old(version) }

// read returns a stored object that is only read when a condition asks for it, in the version it asks for.
func (c *cause) read(ctx context.Context, resource snapshot.Resource, namespace, name string) expr.Objects {
	return onlyOld{func(version string) (runtime.Object, error) {
		named := version
		gk := schema.GroupKind{Group: resource.Group, Kind: resource.Kind}
		if version == "" {
			if version = c.snapshot().Served.PreferredVersion(gk); version == "" {
				return nil, fmt.Errorf("%s is not known to be served: the version in which conditions see it is unknown", gk)
			}
		}
		if served := c.snapshot().Served; named == "" && served.LostInStorage(resource.GroupResource(), version) {
			return nil, lostError(version, version)
		}
		object, err := c.Stored.Get(ctx, resource.GroupResource().WithVersion(version), namespace, name)
		if err != nil {
			return nil, err
		}
		return object, nil
	}}
}

var pods = snapshot.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}

func evicts(attrs admission.Attributes) bool {
	return attrs.GetOperation() == admission.Create && attrs.GetResource().GroupResource() == pods.GroupResource() && attrs.GetSubresource() == "eviction"
}

// eviction checks an eviction, which deletes a pod without asking for delete. The rules of Policy have considered that
// already; this asks the rest of the chain.
func (c *cause) eviction(ctx context.Context) error {
	if !evicts(c) {
		return nil
	}
	why, denied := c.denied(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, c.deletes(pods.GroupVersionResource, c.GetNamespace(), c.GetName()),
		c.read(ctx, pods, c.GetNamespace(), c.GetName()))
	if denied {
		return forbidden(c, "evicting the pod deletes it, and a rule denies you that: "+why)
	}
	if !c.reached(c.GetNamespace()) {
		return nil
	}
	pod, err := c.Stored.Get(ctx, pods.GroupVersionResource, c.GetNamespace(), c.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return forbidden(c, "rules deny you some deletes, and the server cannot tell what would be deleted with the pod: "+err.Error())
	}
	return c.dependents(ctx, pods.Kind, pod.GetUID())
}
