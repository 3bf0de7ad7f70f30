package authorize

import (
	"context"
	"errors"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Tier is an element of the chain that answers from the rule index of the request's snapshot: policy-master,
// policy-namespace or RBAC.
type Tier struct {
	tier ruleset.Tier
	// label is the prefix of the reason of a condition; a rule's own reason names its origin.
	label string
	store *snapshot.Store
	node  authorizer.UnconditionalAuthorizer
	// local knows which resources are served in this process. A server elsewhere need not honour selectors, so there
	// they imply nothing.
	local Local
	// supposed is a rule that counts as if it were enforced, for requests that it applies to; see Chain.supposing.
	supposed ruleset.Hit
}

// NewPolicyMaster returns the tier of the master namespace.
func NewPolicyMaster(store *snapshot.Store) *Tier {
	return &Tier{tier: ruleset.TierMaster, label: "policy-master", store: store, local: nowhere{}}
}

// YieldingTo lets denies that are only due to unreadable policy yield to the Node authorizer, which may be nil.
func (t *Tier) YieldingTo(node authorizer.UnconditionalAuthorizer) *Tier {
	t.node = node
	return t
}

// ServedBy sets which resources this process serves. Without it, none are, and selectors imply nothing.
func (t *Tier) ServedBy(local Local) *Tier {
	t.local = local
	return t
}

// NewPolicyNamespace returns the tier of the request's own namespace. Its denies yield to every cluster-wide grant and
// to the Node authorizer, which may be nil, so no local rule can lock out cluster admins, controllers or nodes (PO-7).
func NewPolicyNamespace(store *snapshot.Store, node authorizer.UnconditionalAuthorizer) *Tier {
	return &Tier{tier: ruleset.TierNamespace, label: "policy-namespace", store: store, node: node, local: nowhere{}}
}

// NewRBAC returns the tier for RBAC, decided by the same index (PO-19).
func NewRBAC(store *snapshot.Store) *Tier {
	return &Tier{tier: ruleset.TierRBAC, label: "RBAC", store: store, local: nowhere{}}
}

var (
	_ authorizer.Authorizer   = (*Tier)(nil)
	_ authorizer.RuleResolver = (*Tier)(nil)
	_ opener                  = (*Tier)(nil)

	errNoIndex = errors.New("no policy has been read yet")
)

// Authorize folds conditions: an allow that depends on the object does not allow, a deny that does denies. A condition
// that fails has decided, so its error is not returned: upstream would turn it into a 500.
func (t *Tier) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return t.fold(ctx, attrs, lists{})
}

func (t *Tier) fold(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.Decision, string, error) {
	return foldOpen(t.open(ctx, attrs, how))
}

// foldOpen decides an answer where no condition is evaluated.
func foldOpen(d authorizer.ConditionsAwareDecision, set *openSet) (authorizer.Decision, string, error) {
	if set != nil {
		return set.folded(), folds(set.canBecome(authorizer.DecisionAllow)), nil
	}
	decision, reason, err := Parts(d)
	if FailedClosed(err) {
		err = nil
	}
	return decision, reason, err
}

// ConditionsAwareAuthorize decides, or returns the conditions of the decision.
func (t *Tier) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return decisionOf(t.open(ctx, attrs, lists{}))
}

func decisionOf(d authorizer.ConditionsAwareDecision, set *openSet) authorizer.ConditionsAwareDecision {
	if set != nil {
		return set.upstream()
	}
	return d
}

// open costs a few look-ups; it allocates only where conditional rules apply.
func (t *Tier) open(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.ConditionsAwareDecision, *openSet) {
	snap := SnapshotOf(ctx, t.store)
	ix := snap.Rules
	if ix == nil {
		return authorizer.ConditionsAwareDecisionDeny("", errNoIndex), nil
	}
	var q ruleset.Query
	q.Reset(ix, attrs)
	if how.byName {
		q.ByName()
	}
	m := t.match(&q)
	if t.supposed.Found() {
		if m = m.With(t.supposed); t.tier == ruleset.TierMaster && m.Allow.Found() && m.Deny.Yields() {
			m.Deny = ruleset.Hit{}
		}
	}
	if t.tier == ruleset.TierNamespace && m.Denies() && t.yields(ctx, &q, attrs) {
		m = m.WithoutDenies()
	}
	if t.tier == ruleset.TierMaster && m.Deny.Yields() && t.yields(ctx, &q, attrs) {
		m.Deny = ruleset.Hit{}
	}
	switch {
	case m.Deny.Found():
		return authorizer.ConditionsAwareDecisionDeny(t.denied(m.Deny.Reason(), m.Allow), nil), nil
	case m.ConditionalDeny || (m.ConditionalAllow && !m.Allow.Found()):
		return t.conditional(&q, m, attrs, selection{snap.Served, how.unselected, requestctx.InstantOf(ctx)})
	case m.Allow.Found():
		return authorizer.ConditionsAwareDecisionAllow(m.Allow.Reason(), nil), nil
	}
	// As in upstream's RBAC, a binding without its role is a reason, not an error: everything else was decided.
	if err := q.Errors(t.tier); err != nil {
		return authorizer.ConditionsAwareDecisionNoOpinion(err.Error(), nil), nil
	}
	return authorizer.ConditionsAwareDecisionNoOpinion("", nil), nil
}

// selection is what selectors can be about, whether they are ignored, and the instant of the request.
type selection struct {
	served  *snapshot.Served
	ignored bool
	at      time.Time
}

// is reports whether it is this tier.
func (t *Tier) is(tier ruleset.Tier) bool { return t.tier == tier }

func (t *Tier) match(q *ruleset.Query) ruleset.Match {
	switch t.tier {
	case ruleset.TierMaster:
		return q.PolicyMaster()
	case ruleset.TierNamespace:
		return q.PolicyNamespace()
	default:
		return q.RBAC()
	}
}

// yields reports whether a grant for the whole cluster allows what the namespace would deny.
func (t *Tier) yields(ctx context.Context, q *ruleset.Query, attrs authorizer.Attributes) bool {
	if q.ClusterGrant().Found() {
		return true
	}
	if t.node == nil {
		return false
	}
	decision, _, _ := t.node.Authorize(ctx, attrs)
	return decision == authorizer.DecisionAllow
}

// denied says why the request was denied and, if there is one, which rule would have allowed it (PO-8).
func (t *Tier) denied(why string, allow ruleset.Hit) string {
	if allow.Found() {
		why += "; without that: " + allow.Reason()
	}
	return why
}

// conditional collects the rules that depend on the object, unless the decision turns out to be final without it.
// Denies are decided first: one that holds for every object ends it.
func (t *Tier) conditional(q *ruleset.Query, m ruleset.Match, attrs authorizer.Attributes, by selection) (authorizer.ConditionsAwareDecision, *openSet) {
	set := &openSet{label: t.label, attrs: attrs, at: by.at}
	var room [2]ruleset.Hit
	if m.ConditionalDeny {
		for _, hit := range t.applying(room[:0], q, ruleset.Denies) {
			c := set.bind(hit)
			switch o := set.decide(c, expr.Deny); o.Truth() {
			case expr.False:
			case expr.Unresolved:
				set.keep(&set.denies, c, o.Residual())
			default: // it holds for every object, or fails
				return authorizer.ConditionsAwareDecisionDeny(t.denied(t.label+": "+c.describe(), m.Allow), failed(c, o)), nil
			}
		}
	}
	allowed, why := m.Allow.Found(), ""
	var failure error
	if allowed {
		why = m.Allow.Reason()
	} else {
		for _, hit := range t.applying(room[:0], q, ruleset.Allows) {
			c := set.bind(hit)
			switch o := set.decide(c, expr.Allow); o.Truth() {
			case expr.True:
				allowed, why = true, hit.Reason()
			case expr.Failed:
				failure = failed(c, o)
			case expr.Unresolved:
				if set.selects(c, by, t.local) {
					allowed, why = true, hit.Reason()+", as the selectors imply its condition"
					break
				}
				set.keep(&set.allows, c, o.Residual())
			}
			if allowed {
				break
			}
		}
	}
	switch {
	case allowed && len(set.denies) == 0:
		return authorizer.ConditionsAwareDecisionAllow(why, nil), nil
	case allowed:
		set.allows = []authorizer.Condition{always(why)}
	case len(set.denies) == 0 && len(set.allows) == 0:
		return authorizer.ConditionsAwareDecisionNoOpinion("no condition of a rule that applies can be met", failure), nil
	}
	set.denies, set.allows = unique(set.denies), unique(set.allows)
	return authorizer.ConditionsAwareDecision{}, set
}

// applying appends the rules of the tier that apply under conditions to hits.
func (t *Tier) applying(hits []ruleset.Hit, q *ruleset.Query, effect ruleset.Effect) []ruleset.Hit {
	hits = q.AppendConditional(hits, t.tier, effect)
	if s := t.supposed; s.Found() && s.Effect() == effect && (s.Condition() != nil || s.Names() != nil) {
		hits = append(hits, s)
	}
	return hits
}

// EvaluateConditions decides a set that this tier returned.
func (t *Tier) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return evaluateSets(ctx, t.label, d, data)
}

// RulesFor lists what SelfSubjectRulesReview shows. Both policy tiers are listed by the first of them.
func (t *Tier) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	ix := SnapshotOf(ctx, t.store).Rules
	if ix == nil {
		return nil, nil, true, errNoIndex
	}
	var rules ruleset.Rules
	switch t.tier {
	case ruleset.TierMaster:
		rules = ix.PolicyRulesFor(u, namespace)
	case ruleset.TierRBAC:
		rules = ix.RBACRulesFor(u, namespace)
	}
	return rules.Resources, rules.NonResources, rules.Incomplete, rules.Err
}
