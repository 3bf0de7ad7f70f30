package ruleset

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// WithRole is the index as if a Policy role had other rules.
func (ix *Index) WithRole(ref RoleRef, rules []policyv1alpha1.PolicyRule) *Index {
	next := policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: policyv1alpha1.PolicyName}}
	if old, ok := ix.policies.Get(ix.hash(ref.Namespace), ref.Namespace); ok {
		next = *old
	}
	roles := map[string]policyv1alpha1.PolicyRole{}
	maps.Copy(roles, next.Roles)
	roles[ref.Name] = policyv1alpha1.PolicyRole{Rules: rules}
	next.Roles = roles
	return ix.Apply(Put(&next))
}

// WithBinding is the index as if a Policy role were bound to more subjects in a namespace.
func (ix *Index) WithBinding(namespace string, ref RoleRef, b policyv1alpha1.PolicyRoleBinding) *Index {
	next := policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ref.Namespace}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: ref.Namespace}}
	key := nsName{namespace, ref.Namespace}
	if old, ok := ix.containers.Get(ix.hashName(key), key); ok {
		next = *old
	}
	bindings := map[string]policyv1alpha1.PolicyRoleBinding{}
	maps.Copy(bindings, next.RoleBindings)
	b.RoleName = ref.Name
	bindings["(supposed)"] = b
	next.RoleBindings = bindings
	return ix.Apply(Put(&next))
}

// With is the match as if one more rule applied.
func (m Match) With(h Hit) Match {
	conditional := h.Condition() != nil || h.Names() != nil
	switch {
	case !h.Found():
	case h.rule.Deny && conditional:
		m.ConditionalDeny = true
	case h.rule.Deny:
		if !m.Deny.Found() || m.Deny.Yields() {
			m.Deny = h
		}
	case conditional:
		m.ConditionalAllow = true
	case !m.Allow.Found():
		m.Allow = h
	}
	return m
}

// Applying are the rules of the index that apply to the request, by tier, each once and not once per binding.
func (q *Query) Applying(tier Tier) []Hit {
	var all []Hit
	for _, effect := range []Effect{Denies, Allows} {
		for _, h := range q.AppendAll(nil, tier, effect) {
			known := false
			for _, other := range all {
				known = known || other.rule == h.rule && other.byDelete == h.byDelete
			}
			if !known {
				all = append(all, h)
			}
		}
	}
	return all
}
