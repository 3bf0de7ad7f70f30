package authorize

import (
	"context"
	"encoding/json"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
)

// AnnotationAuthorizationDecision holds, in the audit event, the final decision and its author, as JSON in the shape of
// KEP-6001.
const AnnotationAuthorizationDecision = "authorization.proviso.dev/authorizationDecision"

// IsAudited reports whether any audit sink wants the annotations of a request. If none does, they cost nothing.
func IsAudited(ctx context.Context) bool {
	event := audit.AuditContextFrom(ctx)
	return event != nil && event.GetEventLevel().GreaterOrEqual(auditinternal.LevelMetadata)
}

// Decided describes who decided. The reason distinguishes rules with the same decision. A link without a name stands
// for no particular authorizer.
func (w Walk) Decided(ctx context.Context, by Link, decision authorizer.Decision, reason string) *reviewv1.AuthorizationDecision {
	d := &reviewv1.AuthorizationDecision{Decision: "deny", Authorizer: by.kind()}
	if decision == authorizer.DecisionAllow {
		d.Decision = "allow"
	}
	if by.Type == TypeWebhook {
		d.Webhook = &reviewv1.WebhookDecision{Name: by.Name}
	}
	tracer, ok := by.Authorizer.(RuleTracer)
	if !ok {
		return d
	}
	hit, ok := deciding(tracer.Applying(ctx, w.attrs), decision, reason)
	switch {
	case !ok:
	case tracer.Tier() == ruleset.TierRBAC:
		d.RBAC = ruleDecision(hit)
	default:
		d.Policy = ruleDecision(hit)
	}
	return d
}

// deciding finds the rule that decided: the one that the reason names or, if it names none, the only one that can have
// decided. It returns false if there are several candidates.
func deciding(rules []Applied, decision authorizer.Decision, reason string) (ruleset.Hit, bool) {
	effect := ruleset.Denies
	if decision == authorizer.DecisionAllow {
		effect = ruleset.Allows
	}
	var open []ruleset.Hit
	for _, r := range rules {
		switch {
		case r.Hit.Effect() != effect || r.Yields || r.Known == expr.False:
		case r.Hit.Reason() == reason:
			return r.Hit, true
		default:
			open = append(open, r.Hit)
		}
	}
	if len(open) != 1 {
		return ruleset.Hit{}, false
	}
	return open[0], true
}

func ruleDecision(hit ruleset.Hit) *reviewv1.RuleDecision {
	role, binding := hit.Role(), hit.Binding()
	d := &reviewv1.RuleDecision{
		Role:    reviewv1.RoleReference{Kind: "Role", Name: role.Name, Namespace: role.Namespace},
		Binding: reviewv1.BindingReference{Kind: "RoleBinding", Name: binding.Name, Namespace: binding.Namespace},
	}
	if role.Kind == ruleset.ClusterRole {
		d.Role.Kind, d.Role.Namespace = "ClusterRole", ""
	}
	if binding.Kind == ruleset.ClusterRoleBinding {
		d.Binding.Kind, d.Binding.Namespace = "ClusterRoleBinding", ""
	}
	subject := &d.Binding.MatchedSubject
	subject.Kind, subject.Name, subject.Namespace = hit.MatchedSubject()
	return d
}

// kind is how a decision refers to a link: the type of the authorizer or, if it cannot be configured, its name.
func (l Link) kind() string {
	if l.Type != "" {
		return l.Type
	}
	return l.Name
}

// record writes the final decision on the request itself into its audit event.
func (g *Gate) record(ctx context.Context, slot requestctx.Slot, attrs authorizer.Attributes, out requestctx.Outcome) {
	if slot == requestctx.Request && IsAudited(ctx) {
		w := g.Chain.Walk(attrs)
		w.record(ctx, out)
	}
}

// record writes a decision of the walk. A folded decision has no author yet: the reason tells which link made it.
func (w Walk) record(ctx context.Context, out requestctx.Outcome) {
	by := Link{}
	for _, a := range w.kept {
		if a.link.Name == out.Authorizer {
			by = *a.link
		}
	}
	for _, link := range w.rest {
		if link.Name == out.Authorizer || out.Authorizer == "" && out.Reason != "" && w.names(ctx, link, out) {
			by = link
		}
	}
	RecordDecision(ctx, w.Decided(ctx, by, out.Decision, out.Reason))
}

// names reports whether the reason of a decision comes from a rule of the link.
func (w Walk) names(ctx context.Context, link Link, out requestctx.Outcome) bool {
	tracer, ok := link.Authorizer.(RuleTracer)
	if !ok {
		return false
	}
	hit, ok := deciding(tracer.Applying(ctx, w.attrs), out.Decision, out.Reason)
	return ok && hit.Reason() == out.Reason
}

// RecordDecision writes a decision into the audit event of a request, if it is wanted. The first one stands.
func RecordDecision(ctx context.Context, d *reviewv1.AuthorizationDecision) {
	if !IsAudited(ctx) {
		return
	}
	if _, said := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationAuthorizationDecision); said {
		return // of the first object of a collection
	}
	if text, err := json.Marshal(d); err == nil {
		audit.AddAuditAnnotation(ctx, AnnotationAuthorizationDecision, string(text))
	}
}
