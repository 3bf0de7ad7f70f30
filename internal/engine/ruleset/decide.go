package ruleset

import "k8s.io/apiserver/pkg/authorization/authorizer"

// Certainty is how sure it is that Policy and RBAC together allow a request, whatever the object. The zero value
// refuses.
type Certainty uint8

// The certainties.
const (
	// Never: no object would make it allowed.
	Never Certainty = iota
	// Sometimes: it depends on the object.
	Sometimes
	// Always: allowed, whatever the object is.
	Always
)

// Standing is the combined result of Policy and RBAC for a request. Escalation checks and who-can treat it as what is
// held; the Node authorizer and webhooks are not part of it.
type Standing struct {
	Certainty Certainty
	// Deny is the unconditional deny rule that ended the walk or, with Allow, that the walk met; Allow the
	// unconditional allow rule. Both can be set.
	Deny, Allow Hit
	// Conditions are the conditional rules that decide when the certainty is Sometimes, in the order of the tiers,
	// denies before allows in each. The request is allowed if the walk through them in this order reaches an allow,
	// Allow included, before a deny.
	Conditions []Hit
	// MayDeny is true if a conditional deny rule is on the walk, also if nothing allows. It may refuse single fields,
	// too.
	MayDeny bool
}

// Decide is Query.Decide for a single question.
func (ix *Index) Decide(a authorizer.Attributes) Standing {
	var q Query
	q.Reset(ix, a)
	return q.Decide(nil)
}

// Decide walks the tiers in the order of the chain. buf is used for the conditions; nothing is allocated if there are
// none.
func (q *Query) Decide(buf []Hit) Standing {
	w := walk{v: Standing{Conditions: buf[:0]}}
	if w.tier(q, TierMaster, q.PolicyMaster()) {
		return w.v
	}
	local := q.PolicyNamespace()
	if local.Denies() && q.ClusterGrant().Found() {
		local = local.WithoutDenies()
	}
	if w.tier(q, TierNamespace, local) {
		return w.v
	}
	if w.tier(q, TierRBAC, q.RBAC()) {
		return w.v
	}
	w.end(false)
	return w.v
}

// walk is a standing in progress.
type walk struct {
	v      Standing
	denies int // conditional denies so far
	allows int // conditional allows so far
}

// tier adds the match of one tier and reports whether that ends the walk.
func (w *walk) tier(q *Query, t Tier, m Match) bool {
	if m.Allow.Found() {
		w.v.Allow = m.Allow
	}
	if m.Deny.Found() {
		w.v.Deny = m.Deny
		w.end(false)
		return true
	}
	if m.ConditionalDeny {
		n := len(w.v.Conditions)
		w.v.Conditions = q.AppendConditional(w.v.Conditions, t, Denies)
		w.denies += len(w.v.Conditions) - n
	}
	if m.Allow.Found() {
		w.end(true)
		return true
	}
	if m.ConditionalAllow {
		n := len(w.v.Conditions)
		w.v.Conditions = q.AppendConditional(w.v.Conditions, t, Allows)
		w.allows += len(w.v.Conditions) - n
	}
	return false
}

// end settles the certainty: an allow at the end without a conditional deny before it is certain; without an allow at
// the end there has to be a conditional allow.
func (w *walk) end(allowed bool) {
	w.v.MayDeny = w.denies > 0
	switch {
	case allowed && w.denies == 0:
		w.v.Certainty, w.v.Conditions = Always, w.v.Conditions[:0]
	case allowed || w.allows > 0:
		w.v.Certainty = Sometimes
	default:
		w.v.Certainty, w.v.Conditions = Never, w.v.Conditions[:0]
	}
}
