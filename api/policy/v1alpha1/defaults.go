package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

func addDefaults(scheme *runtime.Scheme) error {
	scheme.AddTypeDefaultingFunc(&PolicyBinding{}, func(obj any) { SetPolicyBindingDefaults(obj.(*PolicyBinding)) })
	scheme.AddTypeDefaultingFunc(&PolicyBindingList{}, func(obj any) {
		list := obj.(*PolicyBindingList)
		for i := range list.Items {
			SetPolicyBindingDefaults(&list.Items[i])
		}
	})
	scheme.AddTypeDefaultingFunc(&ProtectedAttribute{}, func(obj any) {
		a := obj.(*ProtectedAttribute)
		setProtectionDefaults(&a.RoleRef, &a.Scope)
	})
	scheme.AddTypeDefaultingFunc(&ProtectedAttributeList{}, func(obj any) {
		list := obj.(*ProtectedAttributeList)
		for i := range list.Items {
			setProtectionDefaults(&list.Items[i].RoleRef, &list.Items[i].Scope)
		}
	})
	scheme.AddTypeDefaultingFunc(&ClusterProtectedAttribute{}, func(obj any) {
		a := obj.(*ClusterProtectedAttribute)
		setProtectionDefaults(&a.RoleRef, &a.Scope)
	})
	scheme.AddTypeDefaultingFunc(&ClusterProtectedAttributeList{}, func(obj any) {
		list := obj.(*ClusterProtectedAttributeList)
		for i := range list.Items {
			setProtectionDefaults(&list.Items[i].RoleRef, &list.Items[i].Scope)
		}
	})
	return nil
}

// SetPolicyBindingDefaults lets the reference follow from the name, which is the namespace of the policy.
func SetPolicyBindingDefaults(b *PolicyBinding) {
	if b.PolicyRef.Namespace == "" {
		b.PolicyRef.Namespace = b.Name
	}
}

func setProtectionDefaults(ref *RoleReference, scope *ProtectionScope) {
	if ref.APIGroup == "" {
		ref.APIGroup = RoleAPIGroup
	}
	if *scope == "" {
		*scope = ScopeIncludeTemplates
	}
}
