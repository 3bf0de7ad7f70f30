package ruleset

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Effect is what a rule does.
type Effect uint8

// The effects.
const (
	Allows Effect = iota + 1
	Denies
)

// Match is the result of one tier for a request. The zero value is no opinion. Conditional rules are only announced, so
// they cost nothing for a request that none of them concerns: see Query.AppendConditional.
type Match struct {
	// Deny is a deny rule that applies without a condition. It decides, whatever Allow says.
	Deny Hit
	// Allow is an allow rule that applies without a condition. Both can be set: people want to see both reasons.
	Allow Hit
	// ConditionalDeny and ConditionalAllow are true if rules apply under conditions. Each is complete only if no
	// unconditional rule of the same effect was found, in which case it does not matter.
	ConditionalDeny, ConditionalAllow bool
}

// Denies reports whether the tier denies or could deny.
func (m *Match) Denies() bool { return m.Deny.Found() || m.ConditionalDeny }

// WithoutDenies returns the match without its deny rules, for when they yield; see Query.ClusterGrant.
func (m Match) WithoutDenies() Match {
	m.Deny, m.ConditionalDeny = Hit{}, false
	return m
}

// PolicyMaster is Query.PolicyMaster for a single question.
func (ix *Index) PolicyMaster(a authorizer.Attributes) Match {
	var q Query
	q.Reset(ix, a)
	return q.PolicyMaster()
}

// PolicyNamespace is Query.PolicyNamespace for a single question.
func (ix *Index) PolicyNamespace(a authorizer.Attributes) Match {
	var q Query
	q.Reset(ix, a)
	return q.PolicyNamespace()
}

// RBAC is Query.RBAC for a single question.
func (ix *Index) RBAC(a authorizer.Attributes) Match {
	var q Query
	q.Reset(ix, a)
	return q.RBAC()
}

// ClusterGrant is Query.ClusterGrant for a single question.
func (ix *Index) ClusterGrant(a authorizer.Attributes) Hit {
	var q Query
	q.Reset(ix, a)
	return q.ClusterGrant()
}

// PolicyMaster matches the bindings of the master namespace, which hold for every request. Denies that stand for
// unreadable policy have already yielded to cluster-wide grants; see Hit.Yields for the Node authorizer.
func (q *Query) PolicyMaster() (m Match) {
	q.match(&m, ScopeMaster, true)
	if m.Deny.Yields() && (m.Allow.Found() || q.ClusterGrant().Found()) {
		m.Deny = Hit{}
	}
	return m
}

// PolicyNamespace matches the Policy bindings of the request's namespace. Its denies have not yielded to cluster-wide
// grants yet, see ClusterGrant. Non-resource requests have no namespace.
func (q *Query) PolicyNamespace() (m Match) {
	if q.req.ResourceRequest {
		q.match(&m, ScopePolicy, true)
	}
	return m
}

// RBAC matches the cluster role bindings and then the role bindings of the request's namespace.
func (q *Query) RBAC() (m Match) {
	q.match(&m, ScopeCluster, false)
	if !m.Allow.Found() {
		q.match(&m, ScopeRBAC, false)
	}
	return m
}

// ClusterGrant finds a cluster role binding that allows the request. A deny of policy-namespace yields to it, as it
// yields to a master allow (which the chain has asked before) and to the Node authorizer, so no local rule can lock out
// cluster admins, controllers or nodes.
func (q *Query) ClusterGrant() Hit {
	var m Match
	q.match(&m, ScopeCluster, false)
	return m.Allow
}

// walkMax is up to how many roles of a subject are tried one by one; with more, the inverse index is asked first.
const walkMax = 16

// match looks through what every subject of the request has in a scope.
func (q *Query) match(m *Match, kind Scope, denies bool) {
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		g := q.grants(s, kind)
		if len(g) > walkMax && !q.req.Wild {
			q.matchMany(m, s, g, kind, denies)
		} else {
			for j := range g {
				q.matchRole(m, s, &g[j], denies)
			}
		}
		if m.Allow.Found() && (m.Deny.Found() && !m.Deny.rule.Soft || !denies) {
			return
		}
	}
}

func (q *Query) matchRole(m *Match, s *subject, g *roleGrant, denies bool) {
	r := q.ix.slots.Get(g.id)
	if r == nil {
		return
	}
	if denies && (!m.Deny.Found() || m.Deny.rule.Soft) && !r.deny.Empty() {
		ru, conditional := r.deny.Denies(&q.req)
		m.ConditionalDeny = m.ConditionalDeny || conditional
		if ru != nil && (!ru.Soft || !m.Deny.Found()) {
			m.Deny = Hit{rule: ru, role: r, grant: g, who: s}
		}
	}
	if !m.Allow.Found() {
		ru, conditional := r.allow.Match(&q.req)
		m.ConditionalAllow = m.ConditionalAllow || conditional
		if ru != nil {
			m.Allow = Hit{rule: ru, role: r, grant: g, who: s}
		}
	}
}

// matchMany is match for a subject with many roles.
func (q *Query) matchMany(m *Match, s *subject, g grants, kind Scope, denies bool) {
	q.eachCandidate(g, kind, func(rg *roleGrant) { q.matchRole(m, s, rg, denies) })
}

// eachCandidate visits the roles of a subject with many: those that the inverse index lists for the request, or all of
// them, whichever are fewer. A role can be visited more than once.
func (q *Query) eachCandidate(g grants, kind Scope, visit func(*roleGrant)) {
	var lists [homes]candidates
	total := 0
	for i, home := range q.homes(kind) {
		if home.kind != 0 {
			lists[i] = q.candidates(home.kind, home.ns)
			total += lists[i].len()
		}
	}
	if total >= len(g) || q.req.ByName { // roles with rules by name are listed under these names
		for j := range g {
			visit(&g[j])
		}
		return
	}
	bit := q.req.Bits()
	for i := range lists {
		lists[i].each(bit, func(id uint32) {
			if rg := g.find(id); rg != nil {
				visit(rg)
			}
		})
	}
}

// homes is the number of places that can define roles bound in a scope.
const homes = 3

// home is such a place.
type home struct {
	kind RoleKind
	ns   string
}

func (q *Query) homes(kind Scope) [homes]home {
	switch kind {
	case ScopeMaster:
		return [homes]home{{PolicyRole, q.ix.master}, {ClusterRole, ""}}
	case ScopeCluster:
		return [homes]home{{ClusterRole, ""}}
	case ScopePolicy:
		return [homes]home{{PolicyRole, q.req.Namespace}, {PolicyRole, q.ix.master}, {ClusterRole, ""}}
	}
	return [homes]home{{Role, q.req.Namespace}, {ClusterRole, ""}}
}

// AppendConditional appends the rules of a tier that apply under conditions, each once, to buf. Without conditional
// rules it returns buf and allocates nothing.
func (q *Query) AppendConditional(buf []Hit, tier Tier, effect Effect) []Hit {
	return q.collect(buf, tier, effect, false)
}

// AppendAll appends every rule of a tier that applies, with or without conditions, once per binding: the trace of a
// decision.
func (q *Query) AppendAll(buf []Hit, tier Tier, effect Effect) []Hit {
	return q.collect(buf, tier, effect, true)
}

func (q *Query) collect(buf []Hit, tier Tier, effect Effect, all bool) []Hit {
	start := len(buf)
	for _, kind := range q.scopes(tier) {
		for s, i := q.next(0); s != nil && kind != 0; s, i = q.next(i) {
			g := q.grants(s, kind)
			// A trace lists every binding exactly once, so it walks all roles; conditional rules are found as in a
			// decision.
			if !all && len(g) > walkMax && !q.req.Wild {
				q.eachCandidate(g, kind, func(rg *roleGrant) { buf = q.collectRole(buf, start, s, rg, effect, false) })
				continue
			}
			for j := range g {
				buf = q.collectRole(buf, start, s, &g[j], effect, all)
			}
		}
	}
	return buf
}

// collectRole appends the rules of one role that apply. Without all, only conditional ones, each once.
func (q *Query) collectRole(buf []Hit, start int, s *subject, g *roleGrant, effect Effect, all bool) []Hit {
	r := q.ix.slots.Get(g.id)
	if r == nil {
		return buf
	}
	t := &r.allow
	if effect == Denies {
		t = &r.deny
	}
	if t.Empty() {
		return buf
	}
	t.Each(&q.req, func(ru *matching.Rule, v matching.Fit, byDelete bool) {
		if !all {
			known := slices.ContainsFunc(buf[start:], func(h Hit) bool { return h.rule == ru && h.byDelete == byDelete })
			if v != matching.Applies && !known {
				buf = append(buf, Hit{rule: ru, role: r, grant: g, who: s, nameUnknown: v == matching.AppliesIfName, byDelete: byDelete})
			}
			return
		}
		g.bindings.each(func(b *binding) {
			buf = append(buf, Hit{rule: ru, role: r, via: &via{b, s.key}, nameUnknown: v == matching.AppliesIfName, byDelete: byDelete})
		})
	})
	return buf
}

func (q *Query) scopes(tier Tier) [2]Scope {
	switch {
	case tier == TierMaster:
		return [2]Scope{ScopeMaster}
	case tier == TierNamespace && q.req.ResourceRequest:
		return [2]Scope{ScopePolicy}
	case tier == TierRBAC:
		return [2]Scope{ScopeCluster, ScopeRBAC}
	}
	return [2]Scope{}
}
