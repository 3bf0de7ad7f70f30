package authorize

import (
	"context"
	"fmt"
	"slices"
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

// annotateGrant says in the audit event what made possible what a link of the chain has allowed.
func (g *Gate) annotateGrant(ctx context.Context, attrs authorizer.Attributes, by string) {
	if by == links.Access && wanted(ctx) {
		AnnotateGrants(ctx, g.Chain.Granted(ctx, attrs))
	}
}

// AnnotateRead is the same of a read, or of what is seen of it, that a verdict lets through. Of one that is open the
// grants are those that can show an object.
func (g *Gate) AnnotateRead(ctx context.Context, attrs authorizer.Attributes, v Verdict) {
	if v.Answer != Open || !wanted(ctx) {
		g.annotateGrant(ctx, attrs, v.By)
		return
	}
	grants := g.Chain.Granted(ctx, attrs)
	if n := v.Pass.Narrowing(); n != nil && n.Union != nil {
		for _, name := range g.granted(ctx, pinned(ctx), attrs) {
			if _, by := g.partOf(ctx, attrs, name); by == links.Access {
				grants = append(grants, g.Chain.Granted(ctx, inPlace(attrs, name))...)
			}
		}
	}
	AnnotateGrants(ctx, grants)
}

// granted are the namespaces for which something is granted to the caller of a request.
func (g *Gate) granted(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) []string {
	if g.Chain.access() == nil || snap == nil || attrs.GetUser() == nil || !usesGrants(attrs.GetUser()) {
		return nil
	}
	return snap.Access.Places(attrs.GetUser(), requestctx.InstantOf(ctx))
}

// AnnotateGrants says in the audit event which grants made a request possible. It can be called again: an annotation is
// never changed, so that further grants are in further ones.
func AnnotateGrants(ctx context.Context, grants []*access.Grant) {
	if len(grants) == 0 || !wanted(ctx) {
		return
	}
	var said, names, sinks []string
	free := 1
	for ; free < MostGrantAnnotations; free++ {
		value, found := audit.AuditContextFrom(ctx).GetEventAnnotation(numbered(accessv1alpha1.AnnotationRequest, free))
		if !found {
			break
		}
		said = append(said, strings.Split(value, ",")...)
	}
	for _, grant := range grants {
		if !slices.Contains(said, grant.Key()) {
			said, names, sinks = append(said, grant.Key()), append(names, grant.Key()), append(sinks, grant.Sinks()...)
		}
	}
	if len(names) > 0 {
		audit.AddAuditAnnotation(ctx, numbered(accessv1alpha1.AnnotationRequest, free), strings.Join(names, ","))
	}
	if len(sinks) > 0 {
		audit.AddAuditAnnotation(ctx, numbered(AnnotationSinks, free), strings.Join(sinks, ","))
	}
}

// MostGrantAnnotations is how many annotations of one meaning an audit event has at most. A request is asked about
// once for each of its fields at most, and few people have more grants than this.
const MostGrantAnnotations = 32

func numbered(key string, n int) string {
	if n == 1 {
		return key
	}
	return fmt.Sprintf("%s-%d", key, n)
}

// Numbered are all values of an annotation that an audit event may have more than once.
func Numbered(annotations map[string]string, key string) (values []string) {
	if annotations[accessv1alpha1.AnnotationRequest] == "" {
		return nil
	}
	for n := 1; n <= MostGrantAnnotations; n++ {
		if value := annotations[numbered(key, n)]; value != "" {
			values = append(values, strings.Split(value, ",")...)
		}
	}
	return values
}

// Granted are the grants that may have made a request possible which the link of grants has allowed.
func (c *Chain) Granted(ctx context.Context, attrs authorizer.Attributes) []*access.Grant {
	if a := c.access(); a != nil {
		return a.Granted(ctx, c.Scoped(attrs))
	}
	return nil
}

// access is the link of grants; nil if there is none.
func (c *Chain) access() *Access {
	for _, link := range c.Links() {
		if a, ok := link.Authorizer.(*Access); ok {
			return a
		}
	}
	return nil
}
