package rbacstorage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"
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

// New puts our check on the storage of upstream's provider: that one knows what RBAC allows, and neither what Policy
// allows nor what it denies (PO-12).
func New(upstream Provider, escalation *policyreview.Escalation) (Provider, error) {
	known, ok := upstream.(rbacrest.RESTStorageProvider)
	if !ok {
		return nil, fmt.Errorf("the storage provider of %s is a %T: decide how what is written is checked", rbacv1.GroupName, upstream)
	}
	return rbacProvider{known, &rbacGuard{escalation: escalation}}, nil
}

// rbacProvider is upstream's, with its storage guarded.
type rbacProvider struct {
	rbacrest.RESTStorageProvider
	guard *rbacGuard
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
			if storage[name], err = p.guard.storage(s); err != nil {
				return group, fmt.Errorf("%s/%s %s: %w", rbacv1.GroupName, version, name, err)
			}
		}
	}
	return group, nil
}

// rbacGuard checks what is written to RBAC.
type rbacGuard struct {
	escalation *policyreview.Escalation
	// roles and clusters read what is bound.
	roles    rest.Getter
	clusters clusterRoles
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
func (g *rbacGuard) storage(s rest.Storage) (rest.Storage, error) {
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

// repaired takes the marks of what cannot be read off an object that is written anew in its place.
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

// onUpdate lets pass, as upstream does, what only helps an object to be deleted.
func (g *rbacGuard) onUpdate(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		if rbacregistry.IsOnlyMutatingGCFields(obj, old, helper.Semantic) {
			return nil
		}
		return g.confirm(ctx, obj, old)
	}
}

// confirm asks whether the caller may hand out what the object gives.
func (g *rbacGuard) confirm(ctx context.Context, obj, old runtime.Object) error {
	written, err := legacyscheme.Scheme.ConvertToVersion(obj.DeepCopyObject(), rbacv1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	namespace := request.NamespaceValue(ctx)
	switch o := written.(type) {
	case *rbacv1.Role:
		return g.escalation.ConfirmRBACRole(ctx, policyreview.RBACRole{Namespace: namespace, Name: o.Name, Rules: o.Rules})
	case *rbacv1.ClusterRole:
		return g.escalation.ConfirmRBACRole(ctx, policyreview.RBACRole{Name: o.Name, Rules: o.Rules, Aggregates: gathers(obj) || gathers(old)})
	case *rbacv1.RoleBinding:
		return g.binding(ctx, policyreview.RBACBinding{Namespace: namespace, Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects})
	case *rbacv1.ClusterRoleBinding:
		return g.binding(ctx, policyreview.RBACBinding{Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects})
	}
	return fmt.Errorf("cannot check a %T", written)
}

// gathers tells whether a cluster role takes in the rules of others.
func gathers(obj runtime.Object) bool {
	r, ok := obj.(*rbac.ClusterRole)
	return ok && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func (g *rbacGuard) binding(ctx context.Context, b policyreview.RBACBinding) error {
	b.Rules = func(ctx context.Context) ([]rbacv1.PolicyRule, error) {
		if b.RoleRef.Kind == "Role" {
			obj, err := g.roles.Get(ctx, b.RoleRef.Name, &metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			r := &rbacv1.Role{}
			err = legacyscheme.Scheme.Convert(obj.DeepCopyObject(), r, nil)
			return r.Rules, err
		}
		obj, err := g.clusters.Get(request.WithNamespace(ctx, metav1.NamespaceNone), b.RoleRef.Name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return g.gathered(ctx, obj)
	}
	return g.escalation.ConfirmRBACBinding(ctx, b)
}

// gathered are the rules of a cluster role with those that it gathers. The controller that writes them into the role
// may not have come to it yet, and what is bound is the role as it will be.
func (g *rbacGuard) gathered(ctx context.Context, obj runtime.Object) ([]rbacv1.PolicyRule, error) {
	first := &rbacv1.ClusterRole{}
	if err := legacyscheme.Scheme.Convert(obj.DeepCopyObject(), first, nil); err != nil {
		return nil, err
	}
	rules, seen := slices.Clone(first.Rules), map[string]bool{first.Name: true}
	for todo := []*rbacv1.ClusterRole{first}; len(todo) > 0; todo = todo[1:] {
		if todo[0].AggregationRule == nil {
			continue
		}
		for i := range todo[0].AggregationRule.ClusterRoleSelectors {
			chosen, err := g.chosen(ctx, &todo[0].AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return nil, err
			}
			for i := range chosen {
				if r := &chosen[i]; !seen[r.Name] {
					seen[r.Name] = true
					rules, todo = append(rules, r.Rules...), append(todo, r)
				}
			}
		}
	}
	return rules, nil
}

// chosen are the cluster roles with certain labels, as the watch cache has them.
func (g *rbacGuard) chosen(ctx context.Context, by *metav1.LabelSelector) ([]rbacv1.ClusterRole, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, err
	}
	found, err := g.clusters.List(request.WithNamespace(ctx, metav1.NamespaceNone), &metainternalversion.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	list := &rbacv1.ClusterRoleList{}
	err = legacyscheme.Scheme.Convert(found.DeepCopyObject(), list, nil)
	return list.Items, err
}
