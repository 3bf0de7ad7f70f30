package ruleset

import (
	"fmt"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Errors returns an error that lists the caller's bindings in a tier that grant nothing because their role does not
// exist, or nil. It accompanies a decision other than Allow: all other bindings have been applied. If no role is
// missing, it costs nothing.
func (q *Query) Errors(tier Tier) error {
	if q.ix == nil || q.ix.missing == 0 {
		return nil
	}
	var seen []*binding
	for _, kind := range q.scopes(tier) {
		for s, i := q.next(0); s != nil && kind != 0; s, i = q.next(i) {
			for _, g := range q.grants(s, kind) {
				if q.ix.slots.Get(g.id) == nil {
					g.bindings.each(func(b *binding) { seen = append(seen, b) })
				}
			}
		}
	}
	return missingErrors(seen)
}

// maxErrors keeps a message readable; Problems has all of them.
const maxErrors = 10

func missingErrors(seen []*binding) error {
	slices.SortFunc(seen, (*binding).compare)
	seen = slices.Compact(seen)
	var errs []error
	for i, b := range seen {
		if i == maxErrors {
			errs = append(errs, fmt.Errorf("and %d more role bindings grant nothing", len(seen)-maxErrors))
			break
		}
		errs = append(errs, b.missing())
	}
	return utilerrors.NewAggregate(errs)
}

// BindingsOf lists the bindings that refer to a role, in order. A role that is bound must not be deleted.
func (ix *Index) BindingsOf(ref RoleRef) []BindingRef {
	var out []BindingRef
	ix.boundTo(ref, func(_ scope, b *binding) { out = append(out, b.ref) })
	slices.SortFunc(out, BindingRef.compare)
	return out
}
