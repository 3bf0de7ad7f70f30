package ruleset

import (
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// twins adds the twins of the roles that change, and of those that are newly bound by a twin. Only twins that a binding
// refers to exist: nearly all roles have none.
func (e *edit) twins() {
	wanted := map[RoleRef]bool{}
	for _, b := range e.bindings {
		if b != nil && *b.named != b.named.plain() {
			wanted[*b.named] = true
		}
	}
	for ref := range e.roles {
		for _, twin := range []RoleRef{ref.twin(), ref.softTwin()} {
			if _, known := e.next.ids.Get(e.next.hashRole(twin), twin); known && ref.Kind == PolicyRole {
				wanted[twin] = true
			}
		}
	}
	for twin := range wanted {
		e.roles[twin] = e.denialsOf(twin.plain())
	}
}

// denialsOf returns the source of a role as it is after the edit, if it denies anything; nil otherwise.
func (e *edit) denialsOf(ref RoleRef) *roleSource {
	p, ok := e.next.policies.Get(e.next.hash(ref.Namespace), ref.Namespace)
	if !ok {
		return nil
	}
	src := e.next.source(p, ref)
	if src == nil || !slices.ContainsFunc(src.policy, func(r policyv1alpha1.PolicyRule) bool { return r.Deny }) {
		return nil
	}
	return src
}
