package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

// policyBindingKind is the container of the role bindings that refer to one policy.
func policyBindingKind(masterNamespace string) *kind[*policy.PolicyBinding] {
	return &kind[*policy.PolicyBinding]{
		version: policy.SchemeGroupVersion, plural: "policybindings", singular: "policybinding", shortNames: []string{"polb"}, namespaced: true,
		newObject: func() *policy.PolicyBinding { return &policy.PolicyBinding{} },
		newList:   func() runtime.Object { return &policy.PolicyBindingList{} },
		columns: []column[*policy.PolicyBinding]{
			{name: "Policy", description: "The namespace of the policy whose roles are bound.", cell: func(b *policy.PolicyBinding) any { return b.PolicyRef.Namespace }},
			{name: "Bindings", kind: "integer", description: "The number of role bindings.", cell: func(b *policy.PolicyBinding) any { return int64(len(b.RoleBindings)) }},
			{name: "Unresolved", kind: "integer", description: "The number of role bindings whose role does not exist.",
				cell: func(b *policy.PolicyBinding) any { return int64(len(b.Status.Unresolved)) }},
			{name: "Last Modified", description: "When a role binding was changed last.", cell: func(b *policy.PolicyBinding) any { return ago(b.LastModified) }},
		},
		prepare: func(b, old *policy.PolicyBinding) {
			policy.SetPolicyBindingDefaults(b) // the name may have been generated after decoding
			if old == nil {
				b.LastModified = metav1.Now().Rfc3339Copy()
				return
			}
			b.LastModified = old.LastModified
		},
		validate: func(_ context.Context, b, old *policy.PolicyBinding) field.ErrorList {
			return validate.PolicyBinding(b, old, masterNamespace)
		},
		sameContent: func(a, b *policy.PolicyBinding) bool {
			return a.PolicyRef == b.PolicyRef && equality.Semantic.DeepEqual(a.RoleBindings, b.RoleBindings)
		},
		contentFields: []string{"policyRef", "roleBindings", "lastModified"},
		copyContent: func(to, from *policy.PolicyBinding) {
			to.PolicyRef, to.RoleBindings, to.LastModified = from.PolicyRef, from.RoleBindings, from.LastModified
		},
		copyStatus:     func(to, from *policy.PolicyBinding) { to.Status = from.Status },
		validateStatus: func(b *policy.PolicyBinding) field.ErrorList { return statusSize(b) },
	}
}
