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

// policyKind is the container of the roles of a namespace.
func policyKind() *kind[*policy.Policy] {
	return &kind[*policy.Policy]{
		version: policy.SchemeGroupVersion, plural: "policies", singular: "policy", shortNames: []string{"pol"}, namespaced: true,
		newObject: func() *policy.Policy { return &policy.Policy{} },
		newList:   func() runtime.Object { return &policy.PolicyList{} },
		columns: []column[*policy.Policy]{
			{name: "Roles", kind: "integer", description: "The number of roles.", cell: func(p *policy.Policy) any { return int64(len(p.Roles)) }},
			{name: "Unresolved", kind: "integer", description: "The number of kinds that a role names and that nothing serves.",
				cell: func(p *policy.Policy) any { return int64(len(p.Status.UnresolvedKinds)) }},
			{name: "Last Modified", description: "When a role was changed last.", cell: func(p *policy.Policy) any { return ago(p.LastModified) }},
			{name: "Compiled", wide: true, description: "Whether all rules could be compiled.",
				cell: func(p *policy.Policy) any { return conditionCell(p.Status.Conditions, policy.ConditionRulesCompiled) }},
		},
		prepare: func(p, old *policy.Policy) {
			if old == nil {
				p.LastModified = metav1.Now().Rfc3339Copy()
				return
			}
			p.LastModified = old.LastModified
		},
		validate: func(_ context.Context, p, old *policy.Policy) field.ErrorList { return validate.Policy(p, old) },
		sameContent: func(a, b *policy.Policy) bool {
			return equality.Semantic.DeepEqual(a.Roles, b.Roles)
		},
		contentFields:  []string{"roles", "lastModified"},
		copyContent:    func(to, from *policy.Policy) { to.Roles, to.LastModified = from.Roles, from.LastModified },
		copyStatus:     func(to, from *policy.Policy) { to.Status = from.Status },
		validateStatus: func(p *policy.Policy) field.ErrorList { return statusSize(p) },
	}
}
