package rbacstorage

import (
	"context"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	clusterrole "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebinding "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	role "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebinding "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Provider is a storage provider of upstream's.
type Provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// New wraps the storage of upstream's provider with our check: upstream's check knows what RBAC allows, but not what
// Policy allows or denies (PO-12). The storage can then be read within this process.
func New(upstream Provider, escalation *policyreview.Escalation, within *Within) (Provider, error) {
	known, ok := upstream.(rbacrest.RESTStorageProvider)
	if !ok {
		return nil, fmt.Errorf("the storage provider of %s is a %T: decide how what is written is checked", rbacv1.GroupName, upstream)
	}
	return rbacProvider{known, newGuard(escalation), within}, nil
}

// rbacProvider is upstream's, with its storage guarded.
type rbacProvider struct {
	rbacrest.RESTStorageProvider
	guard  *rbacGuard
	within *Within
}

var _ genericapiserver.PostStartHookProvider = rbacProvider{} // which writes the default roles of RBAC

// NewRESTStorage guards every storage of the group. One that is not known is an error: it could be written unchecked.
func (p rbacProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	// Bytes that cannot be decoded grant nothing, and keep no other object from being read (SV-8).
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, frugalStorage{policycodec.ReadableStorageOf(legacyscheme.Scheme, options)})
	if err != nil {
		return group, err
	}
	for version, storage := range group.VersionedResourcesStorageMap {
		for name, s := range storage {
			guarded, err := p.guard.storage(s)
			if err != nil {
				return group, fmt.Errorf("%s/%s %s: %w", rbacv1.GroupName, version, name, err)
			}
			storage[name] = guarded
			p.within.keep(name, guarded)
		}
	}
	return group, nil
}

// rbacGuard checks what is written to RBAC.
type rbacGuard struct {
	writes *policyreview.RBACWrites
	// roles and clusters read what is bound.
	roles    rest.Getter
	clusters clusterRoles
}

func newGuard(escalation *policyreview.Escalation) *rbacGuard {
	g := &rbacGuard{}
	g.writes = &policyreview.RBACWrites{Escalation: escalation, Roles: g}
	return g
}

// clusterRoles are the stored cluster roles.
type clusterRoles interface {
	rest.Getter
	rest.Lister
}

// checkedStorage is a storage of upstream's, which checks what is written.
type checkedStorage interface {
	rest.StandardStorage
	rest.Scoper
	rest.StorageVersionProvider
	rest.SingularNameProvider
}

// storage takes upstream's check off a storage and puts ours on.
func (g *rbacGuard) storage(s rest.Storage) (checkedStorage, error) {
	switch s := s.(type) {
	case *role.Storage:
		g.roles = s
		return guardedStorage{s, s.StandardStorage, g}, nil
	case *clusterrole.Storage:
		g.clusters = s
		return guardedStorage{s, s.StandardStorage, g}, nil
	case *rolebinding.Storage:
		return guardedStorage{s, s.StandardStorage, g}, nil
	case *clusterrolebinding.Storage:
		return guardedStorage{s, s.StandardStorage, g}, nil
	}
	return nil, fmt.Errorf("a storage of type %T is not known: decide how what is written to it is checked", s)
}

// guardedStorage is upstream's but for writes, which go past its check to what is inside. Ours runs at the end of
// validating admission: by then it is certain that the caller may write the object at all, and a refusal can tell what
// is in it.
type guardedStorage struct {
	checkedStorage
	inside rest.StandardStorage
	guard  *rbacGuard
}

// Create stores a new object.
func (s guardedStorage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return s.inside.Create(ctx, obj, s.guard.onCreate(validate), options)
}

// repaired takes the marks of what cannot be read off an object that is written again in its place.
func repaired(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
	if Unreadable(old) == "" {
		return obj, nil
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, policyv1alpha1.AnnotationUnreadable)
	delete(annotations, policyv1alpha1.AnnotationQuarantined)
	o.SetAnnotations(annotations)
	return obj, nil
}

// Unreadable says why an object of RBAC stands for bytes that cannot be read; empty if it does not.
func Unreadable(obj runtime.Object) string {
	o, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(obj)
	if err != nil || len(kinds) == 0 {
		return ""
	}
	return policycodec.StandsFor(kinds[0].GroupKind(), o)
}

// Update changes an object, or creates it by apply.
func (s guardedStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc,
	force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.inside.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, repaired), s.guard.onCreate(create), s.guard.onUpdate(update), force, options)
}

func (g *rbacGuard) onCreate(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return g.confirm(ctx, obj, nil)
	}
}

func (g *rbacGuard) onUpdate(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		return g.confirm(ctx, obj, old)
	}
}

// confirm checks whether the caller may grant what the object grants.
func (g *rbacGuard) confirm(ctx context.Context, obj, old runtime.Object) error {
	written, err := legacyscheme.Scheme.ConvertToVersion(obj.DeepCopyObject(), rbacv1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	var before runtime.Object
	if old != nil {
		if before, err = legacyscheme.Scheme.ConvertToVersion(old.DeepCopyObject(), rbacv1.SchemeGroupVersion); err != nil {
			return err
		}
	}
	return g.writes.Confirm(ctx, request.NamespaceValue(ctx), written, before)
}

// Role implements policyreview.RBACRoles.
func (g *rbacGuard) Role(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	obj, err := g.roles.Get(request.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	role := &rbacv1.Role{}
	return role, legacyscheme.Scheme.Convert(obj.DeepCopyObject(), role, nil)
}

// ClusterRole implements policyreview.RBACRoles.
func (g *rbacGuard) ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	obj, err := g.clusters.Get(request.WithNamespace(ctx, metav1.NamespaceNone), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	return role, legacyscheme.Scheme.Convert(obj.DeepCopyObject(), role, nil)
}

// ClusterRoles implements policyreview.RBACRoles, as the watch cache has them.
func (g *rbacGuard) ClusterRoles(ctx context.Context, by labels.Selector) ([]rbacv1.ClusterRole, error) {
	found, err := g.clusters.List(request.WithNamespace(ctx, metav1.NamespaceNone), &metainternalversion.ListOptions{LabelSelector: by, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	list := &rbacv1.ClusterRoleList{}
	err = legacyscheme.Scheme.Convert(found.DeepCopyObject(), list, nil)
	return list.Items, err
}
