package authorize

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Access is the last link of the chain: what was granted to people who asked for it (TM-11). Every deny ahead of it
// wins over it, and a request was made possible by a grant if and only if this link allowed it.
type Access struct {
	store *snapshot.Store
	// tier decides by the roles of grants, which stand in an index of their own.
	tier Tier
}

// NewAccess makes the link.
func NewAccess(store *snapshot.Store) *Access {
	return &Access{store: store, tier: Tier{tier: ruleset.TierMaster, label: "access", store: store, local: nowhere{}}}
}

// ServedBy says what is served in this process. Without it nothing is, and selectors imply nothing.
func (a *Access) ServedBy(local Local) *Access {
	a.tier.local = local
	return a
}

var (
	_ authorizer.Authorizer = (*Access)(nil)
	_ opener                = (*Access)(nil)
)

// Authorize folds conditions, as a tier does.
func (a *Access) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.fold(ctx, attrs, lists{})
}

func (a *Access) fold(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.Decision, string, error) {
	return foldOpen(a.open(ctx, attrs, how))
}

// ConditionsAwareAuthorize decides, or says under which conditions.
func (a *Access) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return decisionOf(a.open(ctx, attrs, lists{}))
}

// EvaluateConditions decides a set that this link answered.
func (a *Access) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return evaluateSets(ctx, a.tier.label, d, data)
}

// open is one look-up for those to whom nothing was granted.
func (a *Access) open(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.ConditionsAwareDecision, *openSet) {
	snap, at := a.now(ctx)
	none := authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	if asked, rule := snap.Access.MayAsk(attrs); asked {
		if rule == nil {
			return none, nil
		}
		return authorizer.ConditionsAwareDecisionAllow("AccessRule "+rule.Name+" lists the user, or a group of theirs", nil), nil
	}
	if !usesGrants(attrs.GetUser()) {
		return none, nil
	}
	standing := snap.Access.Stands(attrs, at)
	if len(standing) == 0 {
		return none, nil
	}
	var q ruleset.Query
	q.ResetFor(snap.Access.Roles(), attrs, standing...)
	if how.byName {
		q.ByName()
	}
	m := q.PolicyMaster()
	switch {
	case m.Deny.Found():
		return none, nil // the role denies it, which is a reason not to grant it
	case m.ConditionalDeny || (m.ConditionalAllow && !m.Allow.Found()):
		return a.tier.conditional(&q, m, attrs, selection{snap.Served, how.unselected, at})
	case m.Allow.Found():
		return authorizer.ConditionsAwareDecisionAllow(grantedBy(snap.Access, m.Allow), nil), nil
	}
	return none, nil
}

// grantedBy is why a rule allows a request.
func grantedBy(ix *access.Index, hit ruleset.Hit) string {
	if g := ix.ByWhat(hit.Subject()); g != nil {
		return g.Reason()
	}
	return "an AccessRule lists the user, or a group of theirs"
}

// now is the policy of a request, and its instant.
func (a *Access) now(ctx context.Context) (*snapshot.Snapshot, time.Time) {
	if holder := requestctx.From(ctx); holder != nil && holder.Snapshot != nil {
		return holder.Snapshot, holder.Instant
	}
	return a.store.Now()
}

// RulesFor lists nothing: a grant is about single requests, and SelfSubjectRulesReview says that it is incomplete.
func (a *Access) RulesFor(ctx context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	snap, at := a.now(ctx)
	return nil, nil, snap.Access.Has(u, at), nil
}

// Granted are the grants that may have made a request possible which this link has allowed.
func (a *Access) Granted(ctx context.Context, attrs authorizer.Attributes) (grants []*access.Grant) {
	snap, at := a.now(ctx)
	for _, who := range snap.Access.Stands(attrs, at) {
		g := snap.Access.ByWhat(who)
		if g == nil {
			continue
		}
		var q ruleset.Query
		q.ResetFor(snap.Access.Roles(), attrs, who)
		m := q.PolicyMaster()
		if m.Allow.Found() {
			return []*access.Grant{g}
		}
		if m.ConditionalAllow {
			grants = append(grants, g)
		}
	}
	return grants
}

// AnnotationSinks names, in the audit event of a request that a rule with breakGlass made possible, the audit sinks
// that get it whatever they want.
const AnnotationSinks = accessv1alpha1.GroupName + "/sinks"

// AnnotationAsked is, in the audit event of the request that creates an AccessRequest by break-glass, its uid.
const AnnotationAsked = accessv1alpha1.GroupName + "/asked"

// annotateGrant says in the audit event what made a request possible.
func (g *Gate) annotateGrant(ctx context.Context, attrs authorizer.Attributes, by string) {
	if by == links.Access && wanted(ctx) {
		AnnotateGrants(ctx, g.Chain.Granted(ctx, attrs))
	}
}

// AnnotateGrants says in the audit event which grants made a request possible. It can be called again.
func AnnotateGrants(ctx context.Context, grants []*access.Grant) {
	if len(grants) == 0 || !wanted(ctx) {
		return
	}
	if _, said := audit.AuditContextFrom(ctx).GetEventAnnotation(accessv1alpha1.AnnotationRequest); said {
		return
	}
	var names, sinks []string
	for _, grant := range grants {
		names = append(names, grant.Key())
		sinks = append(sinks, grant.Sinks()...)
	}
	audit.AddAuditAnnotation(ctx, accessv1alpha1.AnnotationRequest, strings.Join(names, ","))
	if len(sinks) > 0 {
		audit.AddAuditAnnotation(ctx, AnnotationSinks, strings.Join(sinks, ","))
	}
}

// Granted are the grants that may have made a request possible which the link of grants has allowed.
func (c *Chain) Granted(ctx context.Context, attrs authorizer.Attributes) []*access.Grant {
	for _, link := range c.Links() {
		if a, ok := link.Authorizer.(*Access); ok {
			return a.Granted(ctx, c.Scoped(attrs))
		}
	}
	return nil
}
