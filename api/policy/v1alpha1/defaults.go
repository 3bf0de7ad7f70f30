package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

func addDefaults(scheme *runtime.Scheme) error {
	scheme.AddTypeDefaultingFunc(&PolicyBinding{}, defaulter(SetPolicyBindingDefaults))
	scheme.AddTypeDefaultingFunc(&PolicyBindingList{}, defaulter(func(l *PolicyBindingList) {
		for i := range l.Items {
			SetPolicyBindingDefaults(&l.Items[i])
		}
	}))
	scheme.AddTypeDefaultingFunc(&ProtectedAttribute{}, defaulter(SetProtectedAttributeDefaults))
	scheme.AddTypeDefaultingFunc(&ProtectedAttributeList{}, defaulter(func(l *ProtectedAttributeList) {
		for i := range l.Items {
			SetProtectedAttributeDefaults(&l.Items[i])
		}
	}))
	scheme.AddTypeDefaultingFunc(&ClusterProtectedAttribute{}, defaulter(SetClusterProtectedAttributeDefaults))
	scheme.AddTypeDefaultingFunc(&ClusterProtectedAttributeList{}, defaulter(func(l *ClusterProtectedAttributeList) {
		for i := range l.Items {
			SetClusterProtectedAttributeDefaults(&l.Items[i])
		}
	}))
	scheme.AddTypeDefaultingFunc(&NamespaceAuditSink{}, defaulter(SetNamespaceAuditSinkDefaults))
	scheme.AddTypeDefaultingFunc(&NamespaceAuditSinkList{}, defaulter(func(l *NamespaceAuditSinkList) {
		for i := range l.Items {
			SetNamespaceAuditSinkDefaults(&l.Items[i])
		}
	}))
	return nil
}

// SetNamespaceAuditSinkDefaults fills in what is filled in for an AuditSink, and the namespace of a service.
func SetNamespaceAuditSinkDefaults(s *NamespaceAuditSink) {
	like := auditv1alpha1.AuditSink{Spec: auditv1alpha1.AuditSinkSpec{Policy: s.Spec.Policy, Webhook: s.Spec.Webhook}}
	auditv1alpha1.SetAuditSinkDefaults(&like)
	s.Spec.Policy = like.Spec.Policy
	if w := s.Spec.Webhook; w != nil && w.ClientConfig.Service != nil && w.ClientConfig.Service.Namespace == "" {
		w.ClientConfig.Service.Namespace = s.Namespace
	}
}

// defaulter makes a typed function one that a scheme takes.
func defaulter[T any](set func(*T)) func(any) {
	return func(obj any) {
		if typed, ok := obj.(*T); ok {
			set(typed)
		}
	}
}

// SetPolicyBindingDefaults lets the reference follow from the name, which is the namespace of the policy.
func SetPolicyBindingDefaults(b *PolicyBinding) {
	if b.PolicyRef.Namespace == "" {
		b.PolicyRef.Namespace = b.Name
	}
}

// SetProtectedAttributeDefaults fills in the API group of the role and the scope IncludeTemplates.
func SetProtectedAttributeDefaults(a *ProtectedAttribute) {
	setProtectionDefaults(&a.RoleRef, &a.Scope)
}

// SetClusterProtectedAttributeDefaults does the same.
func SetClusterProtectedAttributeDefaults(a *ClusterProtectedAttribute) {
	setProtectionDefaults(&a.RoleRef, &a.Scope)
}

func setProtectionDefaults(ref *RoleReference, scope *ProtectionScope) {
	if ref.APIGroup == "" {
		ref.APIGroup = RoleAPIGroup
	}
	if *scope == "" {
		*scope = ScopeIncludeTemplates
	}
}
