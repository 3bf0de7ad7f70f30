package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Source is where policy comes from: informers of the server itself, a cluster elsewhere, files. Parts neither know nor
// care.
type Source interface {
	// Objects returns the objects of a kind. It is nil if the source does not have the kind: then there are no such
	// objects, now or later.
	Objects(Kind) (Objects, error)
}

// Dated is a source that knows how recent it is.
type Dated interface {
	// Revision returns how recent the requested kinds are. Everything up to it has been handled: a snapshot that is
	// built afterwards contains it (TR-13).
	Revision() revision.Vector
	// OnMoved registers a function to call when the source has newer data. Call it before anything is read.
	OnMoved(func())
}

// Based is a source that was derived from another one by changes. What both have in common is not compiled again.
type Based interface {
	// Base returns the other one, and the index built from it; nil if there is none. Objects in both are the same
	// pointers.
	Base() (Source, *ruleset.Index)
}

// Objects are the objects of one kind, with notifications of changes. Every informer implements it.
type Objects interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	// GetIndexer holds them, with cache.NamespaceIndex.
	GetIndexer() cache.Indexer
}

// Kind is a kind of objects that are policy, or that are needed to interpret it.
type Kind struct {
	schema.GroupVersionResource
	// Example is an empty object of the kind.
	Example runtime.Object
}

// The kinds that parts are built from.
var (
	Namespaces = Kind{corev1.SchemeGroupVersion.WithResource("namespaces"), &corev1.Namespace{}}

	Roles               = Kind{rbacv1.SchemeGroupVersion.WithResource("roles"), &rbacv1.Role{}}
	ClusterRoles        = Kind{rbacv1.SchemeGroupVersion.WithResource("clusterroles"), &rbacv1.ClusterRole{}}
	RoleBindings        = Kind{rbacv1.SchemeGroupVersion.WithResource("rolebindings"), &rbacv1.RoleBinding{}}
	ClusterRoleBindings = Kind{rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), &rbacv1.ClusterRoleBinding{}}

	Policies                   = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("policies"), &policyv1alpha1.Policy{}}
	PolicyBindings             = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("policybindings"), &policyv1alpha1.PolicyBinding{}}
	FieldPermissions           = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("fieldpermissions"), &policyv1alpha1.FieldPermission{}}
	ProtectedAttributes        = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("protectedattributes"), &policyv1alpha1.ProtectedAttribute{}}
	ClusterProtectedAttributes = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("clusterprotectedattributes"), &policyv1alpha1.ClusterProtectedAttribute{}}

	AuditSinks = Kind{auditv1alpha1.SchemeGroupVersion.WithResource("auditsinks"), &auditv1alpha1.AuditSink{}}
	// NamespaceAuditSinks are the audit sinks of single namespaces.
	NamespaceAuditSinks = Kind{policyv1alpha1.SchemeGroupVersion.WithResource("namespaceauditsinks"), &policyv1alpha1.NamespaceAuditSink{}}
	AuditClasses        = Kind{auditv1alpha1.SchemeGroupVersion.WithResource("auditclasses"), &auditv1alpha1.AuditClass{}}

	AccessRules      = Kind{accessv1alpha1.SchemeGroupVersion.WithResource("accessrules"), &accessv1alpha1.AccessRule{}}
	AccessRequests   = Kind{accessv1alpha1.SchemeGroupVersion.WithResource("accessrequests"), &accessv1alpha1.AccessRequest{}}
	TokenRevocations = Kind{accessv1alpha1.SchemeGroupVersion.WithResource("tokenrevocations"), &accessv1alpha1.TokenRevocation{}}

	Definitions = Kind{apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), &apiextensionsv1.CustomResourceDefinition{}}
)

// Kinds returns all of them.
func Kinds() []Kind {
	return []Kind{Namespaces, Roles, ClusterRoles, RoleBindings, ClusterRoleBindings, Policies, PolicyBindings, FieldPermissions,
		ProtectedAttributes, ClusterProtectedAttributes, AuditSinks, AuditClasses, NamespaceAuditSinks, AccessRules, AccessRequests, TokenRevocations, Definitions}
}

// Of lists the objects of a Go type; nothing if there are none.
func Of[T runtime.Object](objects Objects) (all []T) {
	if objects == nil {
		return nil
	}
	for _, obj := range objects.GetIndexer().List() {
		if o, ok := obj.(T); ok {
			all = append(all, o)
		}
	}
	return all
}
