package authorize

import (
	"errors"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// errOutdated means that the selectors have to be computed again.
var errOutdated = errors.New("the selectors are computed from something else than before")

// basis is everything that narrowTo looks at except the request. A rule that was compiled again counts as a different
// one.
type basis struct {
	rules []basisRule
	// asks is true if single objects can be asked about.
	asks   bool
	fields []expr.SelectableField
}

// basisRule is one rule: the pointers identify compiled rules, which never change.
type basisRule struct {
	compiled *rulecondition.Compiled
	policy   *policyv1alpha1.PolicyRule
	rbac     *rbacv1.PolicyRule
	names    []string
	byDelete bool
	// unseen is why selectors do not see the same object as the condition.
	unseen string
	// sight is what the condition sees of an object.
	sight string
	// at is the instant, if the condition looks at it.
	at time.Time
}

var _ requestctx.Basis = (*basis)(nil)

func basisOf(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) *basis {
	b := &basis{asks: asks, fields: selectable(served, req), rules: make([]basisRule, 0, len(rules))}
	for _, c := range rules {
		r := basisRule{compiled: c.compiled, policy: c.hit.PolicyRule(), rbac: c.hit.RBACRule(), names: c.hit.Names(), byDelete: c.hit.ByDelete(), sight: sight(c, req, served)}
		if err := seenAsSelected(c, req, served); err != nil {
			r.unseen = err.Error()
		}
		if expr.LooksOf(c.rule).Time {
			r.at = req.Time
		}
		b.rules = append(b.rules, r)
	}
	return b
}

// Equal implements requestctx.Basis.
func (b *basis) Equal(other requestctx.Basis) bool {
	o, ok := other.(*basis)
	return ok && b.asks == o.asks && slices.Equal(b.fields, o.fields) && slices.EqualFunc(b.rules, o.rules, func(x, y basisRule) bool {
		return x.compiled == y.compiled && x.policy == y.policy && x.rbac == y.rbac && slices.Equal(x.names, y.names) &&
			x.byDelete == y.byDelete && x.unseen == y.unseen && x.sight == y.sight && x.at.Equal(y.at)
	})
}
