package policyreview

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
)

// watchedName stands where the name of an authorizer stands, for rules that are not enforced: they are not part of the
// chain, and nobody asks them.
const watchedName = "not-enforced"

// watched lists the rules that apply to the request and are not enforced (TR-6). They decide nothing. A caller sees
// those of the namespaces in which they may list shadow rules, as `proviso shadow` shows them. Nil if there are none.
func (r *Reviewer) watched(ctx context.Context, caller user.Info, attrs authorizer.Attributes) *authz.AuthorizerTrace {
	shadows := authorize.SnapshotOf(ctx, r.Store).Shadow.Rules
	if shadows == nil || caller == nil {
		return nil
	}
	sight := &sight{ctx: ctx, chain: r.Gate.Chain, who: caller, roles: map[ruleset.RoleRef]bool{}}
	out := &authz.AuthorizerTrace{Name: watchedName, Answer: authz.AnswerNotAsked, Reason: "these rules are only watched: they grant and refuse nothing"}
	may := map[string]bool{}
	var q ruleset.Query
	q.Reset(shadows, r.Gate.Chain.Scoped(attrs))
	for _, link := range r.Gate.Chain.Links() {
		tracer, ok := link.Authorizer.(authorize.RuleTracer)
		if !ok {
			continue
		}
		for _, hit := range q.Applying(tracer.Tier()) {
			namespace := hit.Role().Namespace
			if _, known := may[namespace]; !known {
				may[namespace] = sight.may(authorizer.AttributesRecord{Verb: "list", Namespace: namespace, APIGroup: authz.GroupName, APIVersion: authz.SchemeGroupVersion.Version, Resource: "shadowrules"})
			}
			switch rule := hit.PolicyRule(); {
			case !may[namespace] || rule == nil:
			case len(out.Rules) >= maxRules:
				out.MoreRules++
			default:
				out.Rules = append(out.Rules, authz.RuleTrace{
					Effect: effectOf(hit), Role: roleOf(hit.Role()), RuleIndex: int32(hit.RuleIndex()), Rule: fmt.Sprintf("%s (%s: not enforced)", hit.Describe(), rule.Enforcement),
					Binding: bindingOf(hit.Binding()), Subject: subjectOf(hit.Subject()),
				})
			}
		}
	}
	if len(out.Rules) == 0 {
		return nil
	}
	return out
}
