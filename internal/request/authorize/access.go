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
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Access is the last link of the chain: it allows what access requests have granted (TM-11). Every deny ahead of it
// wins, and a grant made a request possible if and only if this link allowed it.
type Access struct {
	store *snapshot.Store
	// tier decides by the roles of grants, which are in a separate index.
	tier Tier
}

// NewAccess makes the link.
func NewAccess(store *snapshot.Store) *Access {
	return &Access{store: store, tier: Tier{tier: ruleset.TierMaster, label: "access", store: store, local: nowhere{}}}
}

// ServedBy sets which resources this process serves. Without it, none are, and selectors imply nothing.
func (a *Access) ServedBy(local Local) *Access {
	a.tier.local = local
	return a
}

var (
	_ authorizer.Authorizer = (*Access)(nil)
	_ opener                = (*Access)(nil)
)

// Authorize folds conditions like a tier.
func (a *Access) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.fold(ctx, attrs, lists{})
}

func (a *Access) fold(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.Decision, string, error) {
	return foldOpen(a.open(ctx, attrs, how))
}

// ConditionsAwareAuthorize decides, or returns the conditions of the decision.
func (a *Access) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return decisionOf(a.open(ctx, attrs, lists{}))
}

// EvaluateConditions decides a set that this link returned.
func (a *Access) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return evaluateSets(ctx, a.tier.label, d, data)
}

// open costs one look-up for users without grants.
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
	standing := a.stands(ctx, snap, attrs, at)
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

// stands returns the subjects that a request counts as. A write to another server runs no admission here, so it could
// not use up a grant that ends with the first write. A request without an audit event, which began before there was a
// break-glass grant, could not be reported to the grant's audit sinks.
func (a *Access) stands(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes, at time.Time) []ruleset.Subject {
	standing := snap.Access.Stands(attrs, at)
	if len(standing) == 0 {
		return standing
	}
	elsewhere := verbs.IsWrite(attrs.GetVerb()) && !a.tier.local.Local(attrs.GetAPIGroup(), attrs.GetAPIVersion())
	unheard := audit.AuditContextFrom(ctx) != nil && !IsAudited(ctx)
	return slices.DeleteFunc(standing, func(who ruleset.Subject) bool {
		g := snap.Access.ByWhat(who)
		return g != nil && (elsewhere && g.Request.Spec.Once || unheard && g.ByBreakGlass())
	})
}

// grantedBy returns why a rule allows a request.
func grantedBy(ix *access.Index, hit ruleset.Hit) string {
	if g := ix.ByWhat(hit.Subject()); g != nil {
		return g.Reason()
	}
	return "an AccessRule lists the user, or a group of theirs"
}

// now returns the policy and the instant of a request.
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

// Granted returns the grants that may have made possible a request that this link has allowed.
func (a *Access) Granted(ctx context.Context, attrs authorizer.Attributes) (grants []*access.Grant) {
	snap, at := a.now(ctx)
	for _, who := range a.stands(ctx, snap, attrs, at) {
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

// onTheSide answers a question that is not about the request itself, such as that of an admission plugin. The request
// does not use up a grant for one write by it, so such a grant does not count.
func (g *Gate) onTheSide(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := g.Chain.Authorize(ctx, attrs)
	snap := pinned(ctx)
	if decision != authorizer.DecisionAllow || !verbs.IsWrite(attrs.GetVerb()) || snap == nil || !snap.Access.Has(attrs.GetUser(), requestctx.InstantOf(ctx)) {
		return decision, reason, err
	}
	grants := g.Chain.Granted(ctx, attrs)
	once := func(grant *access.Grant) bool { return grant.Request.Spec.Once }
	if v := g.Decide(ctx, attrs); v.By == links.Access && slices.ContainsFunc(grants, once) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return decision, reason, err
}

// AnnotationSinks names, in the audit event of a request that a rule with breakGlass made possible, the audit sinks
// that get the event whatever their own rules say.
const AnnotationSinks = accessv1alpha1.GroupName + "/sinks"

// AnnotationAsked is, in the audit event of the request that creates an AccessRequest by break-glass, its uid.
const AnnotationAsked = accessv1alpha1.GroupName + "/asked"

// annotateGrant writes the grants behind a request that a link of the chain has allowed into the audit event.
func (g *Gate) annotateGrant(ctx context.Context, attrs authorizer.Attributes, by string) {
	if by == links.Access && IsAudited(ctx) {
		AnnotateGrants(ctx, g.Chain.Granted(ctx, attrs))
	}
}

// AnnotateRead does the same for a read that a verdict lets through, whole or in part, and returns the grants. For an
// open verdict they are those that can show an object.
func (g *Gate) AnnotateRead(ctx context.Context, attrs authorizer.Attributes, v Verdict) (grants []*access.Grant) {
	if !IsAudited(ctx) || v.Answer != Open && v.By != links.Access {
		return nil
	}
	grants = g.Chain.Granted(ctx, attrs)
	if n := v.Pass.Narrowing(); v.Answer == Open && n != nil && n.Union != nil {
		for _, name := range g.granted(ctx, pinned(ctx), attrs) {
			if _, by := g.partOf(ctx, attrs, name); by == links.Access {
				grants = append(grants, g.Chain.Granted(ctx, inPlace(attrs, name))...)
			}
		}
	}
	AnnotateGrants(ctx, grants)
	return grants
}

// granted lists the namespaces in which the caller of a request holds a grant.
func (g *Gate) granted(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) []string {
	if g.Chain.access() == nil || snap == nil || attrs.GetUser() == nil || !usesGrants(attrs.GetUser()) {
		return nil
	}
	return snap.Access.Places(attrs.GetUser(), requestctx.InstantOf(ctx))
}

// AnnotateGrants writes into the audit event which grants made a request possible. It can be called again: an
// annotation is never changed, so later grants get further annotations.
func AnnotateGrants(ctx context.Context, grants []*access.Grant) {
	if len(grants) == 0 || !IsAudited(ctx) {
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

// MostGrantAnnotations is the maximum number of annotations of one meaning in an audit event. A request is asked about
// at most once per field, and few users have more grants than this.
const MostGrantAnnotations = 32

func numbered(key string, n int) string {
	if n == 1 {
		return key
	}
	return fmt.Sprintf("%s-%d", key, n)
}

// Numbered returns all values of an annotation that an audit event may have more than once.
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

// Granted returns the grants that may have made possible a request that the Access link has allowed.
func (c *Chain) Granted(ctx context.Context, attrs authorizer.Attributes) []*access.Grant {
	if a := c.access(); a != nil {
		return a.Granted(ctx, c.Scoped(attrs))
	}
	return nil
}

// access returns the Access link; nil if there is none.
func (c *Chain) access() *Access {
	for _, link := range c.Links() {
		if a, ok := link.Authorizer.(*Access); ok {
			return a
		}
	}
	return nil
}
