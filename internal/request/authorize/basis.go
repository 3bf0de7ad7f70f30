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

// errOutdated says that selectors have to be computed.
var errOutdated = errors.New("the selectors are computed from something else than before")

// basis is all that narrowTo looks at beside the request. A rule that is compiled again counts as another one.
type basis struct {
	rules []basisRule
	// asks tells that single objects can be asked about.
	asks   bool
	fields []expr.SelectableField
}

// basisRule is one rule: the pointers tell compiled rules apart, which never change.
type basisRule struct {
	compiled *rulecondition.Compiled
	policy   *policyv1alpha1.PolicyRule
	rbac     *rbacv1.PolicyRule
	names    []string
	byDelete bool
	// unseen is why selectors do not see what the condition does.
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
