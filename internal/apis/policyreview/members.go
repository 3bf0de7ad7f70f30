package policyreview

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
)

// byCaller are the conditions that decide whether a request that is refused to a subject is allowed to someone whom the
// subject stands for: a member of the group, or the user with a UID, further groups and extra. Where conditions fold,
// one that depends on the caller counts against the subject, whose caller is not known. To a real caller it need not
// apply. None if the request is refused to all of them.
func (r *Reviewer) byCaller(ctx context.Context, attrs authorizer.Attributes) (conditions []authz.Condition) {
	seen := r.Gate.Unseen(attrs) == nil
	for _, link := range r.Indexed.Links() {
		tracer, ok := link.Authorizer.(authorize.RuleTracer)
		if !ok {
			continue
		}
		allows := false
		for _, rule := range tracer.Applying(ctx, r.Indexed.Scoped(attrs)) {
			open, denies := hangsOnCaller(rule), rule.Hit.Effect() == ruleset.Denies
			if open {
				conditions = append(conditions, condition(rule.Condition, effectOf(rule.Hit)))
			}
			switch {
			case denies && !open && !rule.Yields && rule.Known != expr.False:
				return nil
			case !denies:
				allows = allows || open || rule.Known == expr.True || seen && rule.Known == expr.Unresolved
			}
		}
		if allows {
			return conditions
		}
	}
	return nil
}

// hangsOnCaller reports whether the condition of a rule may be open because the caller is not known.
func hangsOnCaller(rule authorize.Applied) bool {
	return rule.Known == expr.Unresolved && expr.LooksOf(rulecondition.Of(rule.Hit).Condition).Request
}
