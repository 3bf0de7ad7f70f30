package ruleset

import (
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Problem is something in the input that does not take effect as written. Everything else does: one bad object never
// affects another.
type Problem struct {
	// Role and Rule are set if a rule is quarantined.
	Role RoleRef
	Rule int
	// Deny is true if the quarantined rule is a deny rule: then it denies without its condition. Otherwise it grants
	// nothing.
	Deny bool
	// Binding is set if a binding grants nothing because its role does not exist.
	Binding BindingRef
	Err     error
}

// Error says what is wrong and what follows.
func (p Problem) Error() string {
	switch {
	case p.Binding != (BindingRef{}):
		return p.Err.Error()
	case p.Role == (RoleRef{}):
		return p.Err.Error()
	case p.Deny:
		return fmt.Sprintf("%s: %v; the rule denies without its condition until it is corrected", p.Role, p.Err)
	}
	return fmt.Sprintf("%s: %v; the rule grants nothing until it is corrected", p.Role, p.Err)
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// Problems lists everything that does not take effect as written, in a stable order. It is meant for status and
// metrics, not for requests.
func (ix *Index) Problems() []Problem {
	var out []Problem
	ix.strays.Each(func(_ nsName, p Problem) bool {
		out = append(out, p)
		return true
	})
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Err.Error(), b.Err.Error()) })
	var refs []RoleRef
	ix.troubled.Each(func(ref RoleRef, _ struct{}) bool {
		refs = append(refs, ref)
		return true
	})
	slices.SortFunc(refs, RoleRef.compare)
	for _, ref := range refs {
		out = append(out, ix.role(ref).problems...)
	}
	return append(out, ix.unresolved()...)
}

// unresolved lists the bindings whose role does not exist.
func (ix *Index) unresolved() []Problem {
	if ix.missing == 0 {
		return nil
	}
	var out []Problem
	ix.bindings.Each(func(b *binding) bool {
		if ix.slots.Get(b.id) == nil {
			out = append(out, Problem{Binding: b.ref, Role: *b.named, Err: b.missing()})
		}
		return true
	})
	slices.SortFunc(out, func(a, b Problem) int { return a.Binding.compare(b.Binding) })
	return out
}

// missing is the error of a binding that grants nothing.
func (b *binding) missing() error {
	if b.problem != nil {
		return fmt.Errorf("%s grants nothing: %s", b.ref, *b.problem)
	}
	return fmt.Errorf("%s grants nothing: %s does not exist", b.ref, *b.named)
}

// stray records a Policy with the wrong name. Nothing can refer to it, so it has no effect.
func (e *edit) stray(key nsName, deleted bool) {
	h := e.next.hashName(key)
	if deleted {
		e.next.strays.Remove(e.owner, h, key)
		return
	}
	e.next.strays.Set(e.owner, h, key, Problem{Err: fmt.Errorf(
		"policy %q has no effect: the only Policy of a namespace is named %q", key.ns+"/"+key.name, policyv1alpha1.PolicyName)})
}
