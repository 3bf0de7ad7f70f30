package policychange

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// Invalid are the objects of a change that a server would not take, by the checks that it makes when they are written.
// Conditions are compiled elsewhere, and so are escalations: those depend on who writes.
func Invalid(before *offline.Host, change []manifests.Document, master string) (out []Rejected) {
	v := validator{before, master}
	for _, d := range change {
		for _, err := range v.check(d) {
			out = append(out, Rejected{Message: fmt.Sprintf("%s: %v", d.Key(), err)})
		}
	}
	return out
}

type validator struct {
	before *offline.Host
	master string
}

func (v validator) check(d manifests.Document) field.ErrorList {
	object, _ := written(d)
	if object == nil {
		object = asProtection(d)
	}
	switch o := object.(type) {
	case *authz.Role:
		var had []policyv1alpha1.PolicyRule
		if p, ok := stored[*policyv1alpha1.Policy](v.before, snapshot.Policies, o.Namespace+"/default"); ok {
			had = p.Roles[o.Name].Rules
		}
		return validate.Role(o, had, v.master, nil)
	case *authz.RoleBinding:
		policycodec.SettleRoleRef(o, v.master)
		return validate.RoleBinding(o, v.binding(o), v.master)
	case *rbacv1.Role:
		return validate.RBACRole(o)
	case *rbacv1.ClusterRole:
		return validate.RBACClusterRole(o)
	case *rbacv1.RoleBinding:
		source.DefaultRBAC(o)
		old, _ := stored[*rbacv1.RoleBinding](v.before, snapshot.RoleBindings, o.Namespace+"/"+o.Name)
		return validate.RBACRoleBinding(o, old)
	case *rbacv1.ClusterRoleBinding:
		source.DefaultRBAC(o)
		old, _ := stored[*rbacv1.ClusterRoleBinding](v.before, snapshot.ClusterRoleBindings, o.Name)
		return validate.RBACClusterRoleBinding(o, old)
	case *policyv1alpha1.ProtectedAttribute:
		old, _ := stored[*policyv1alpha1.ProtectedAttribute](v.before, snapshot.ProtectedAttributes, o.Namespace+"/"+o.Name)
		return validate.ProtectedAttribute(o, old, v.master)
	case *policyv1alpha1.ClusterProtectedAttribute:
		old, _ := stored[*policyv1alpha1.ClusterProtectedAttribute](v.before, snapshot.ClusterProtectedAttributes, o.Name)
		return validate.ClusterProtectedAttribute(o, old, v.master)
	case *policyv1alpha1.FieldPermission:
		return validate.FieldPermission(o, func(policyv1alpha1.FieldPermissionSpec, *field.Path) field.ErrorList { return nil })
	case *auditv1alpha1.AuditClass:
		return validate.AuditClass(o)
	}
	return nil
}

// binding is a role binding as it was; nil if it was not there.
func (v validator) binding(b *authz.RoleBinding) *authz.RoleBinding {
	for _, container := range []string{b.Namespace, v.master} {
		if p, ok := stored[*policyv1alpha1.PolicyBinding](v.before, snapshot.PolicyBindings, b.Namespace+"/"+container); ok {
			if old, found := p.RoleBindings[b.Name]; found {
				return &authz.RoleBinding{RoleRef: policycodec.RoleRefOf(&old, p.PolicyRef.Namespace)}
			}
		}
	}
	return nil
}

// stored is an object of the policy that there is.
func stored[T any](host *offline.Host, kind snapshot.Kind, key string) (none T, found bool) {
	objects, err := host.Files().Objects(kind)
	if err != nil || objects == nil {
		return none, false
	}
	obj, exists, err := objects.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return none, false
	}
	one, ok := obj.(T)
	return one, ok
}

// asProtection reads the kinds that are not roles or bindings; nil for others.
func asProtection(d manifests.Document) runtime.Object {
	var object runtime.Object
	switch d.Object.GroupVersionKind().GroupKind().String() {
	case "ProtectedAttribute.policy.proviso.dev":
		object = &policyv1alpha1.ProtectedAttribute{}
	case "ClusterProtectedAttribute.policy.proviso.dev":
		object = &policyv1alpha1.ClusterProtectedAttribute{}
	case "FieldPermission.policy.proviso.dev":
		object = &policyv1alpha1.FieldPermission{}
	case "AuditClass.auditregistration.k8s.io":
		object = &auditv1alpha1.AuditClass{}
	default:
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, object); err != nil {
		return nil
	}
	policycodec.VersionedScheme().Default(object)
	return object
}
