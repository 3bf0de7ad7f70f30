package policyreview

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
)

// sight is what the caller may see of the rules behind an answer (CA-10). A caller sees rules that concern them, as in
// a SelfSubjectAccessReview. They see rules that concern other users if they may read the role with the rule, or may
// create SubjectAccessReviews, which show conditions anyway. Every caller who may ask gets the answer itself.
type sight struct {
	ctx   context.Context
	chain *authorize.Chain
	who   user.Info
	all   bool
	roles map[ruleset.RoleRef]bool
}

// unseen stands for what is not shown.
const unseen = "not shown: you need the right to get the role"

// sightOf is the sight of a caller who asks about others. An unknown caller sees nothing.
func (r *Reviewer) sightOf(ctx context.Context, who user.Info) *sight {
	return newSight(ctx, r.Gate.Chain, who)
}

func newSight(ctx context.Context, chain *authorize.Chain, who user.Info) *sight {
	s := &sight{ctx: ctx, chain: chain, who: who, roles: map[ruleset.RoleRef]bool{}}
	s.all = who != nil && s.may(authorizer.AttributesRecord{Verb: "create", APIGroup: authorizationv1.GroupName, APIVersion: "v1", Resource: "subjectaccessreviews"})
	return s
}

// concerns reports whether a question is about the caller, or about one of their groups.
func concerns(who user.Info, spec authz.SubjectAccessReviewSpec) bool {
	switch {
	case spec.UserName != "":
		return who.GetName() == spec.UserName
	case spec.GroupName != "":
		return slices.Contains(who.GetGroups(), spec.GroupName)
	}
	return true
}

func (s *sight) may(a authorizer.AttributesRecord) bool {
	a.User, a.ResourceRequest = s.who, true
	decision, _, _ := s.chain.Authorize(s.ctx, a)
	return decision == authorizer.DecisionAllow
}

// of reports whether a role can be seen.
func (s *sight) of(role ruleset.RoleRef) bool {
	if s.all || s.who == nil {
		return s.all
	}
	seen, known := s.roles[role]
	if !known {
		a := authorizer.AttributesRecord{Verb: "get", Namespace: role.Namespace, Name: role.Name, APIGroup: rbacv1.GroupName, APIVersion: "v1", Resource: "roles"}
		switch role.Kind {
		case ruleset.PolicyRole:
			a.APIGroup, a.APIVersion = authz.GroupName, authz.SchemeGroupVersion.Version
		case ruleset.ClusterRole:
			a.Resource = "clusterroles"
		}
		seen = s.may(a)
		s.roles[role] = seen
	}
	return seen
}

// conditions shows those that can be seen, and of the others that they are there. Of a condition that no rule has, such
// as a webhook's, nothing is shown but to those who see everything.
func (s *sight) conditions(list []authz.Condition, rules []authorize.Applied) []authz.Condition {
	if s.all {
		return list
	}
	visible := s.visible(rules)
	out := slices.Clone(list)
	for i := range out {
		if !visible.Has(out[i].ID) {
			out[i] = hidden(out[i])
		}
	}
	return out
}

// visible are the conditions of rules that can be seen.
func (s *sight) visible(rules []authorize.Applied) sets.Set[string] {
	ids := sets.New[string]()
	for _, r := range rules {
		if id := conditionID(r); id != "" && !ids.Has(id) && s.of(r.Hit.Role()) {
			ids.Insert(id)
		}
	}
	return ids
}

// View is what a caller may see of the conditions behind the answers to some questions. The zero value shows nothing.
type View struct {
	whole   bool
	visible sets.Set[string]
}

// Whole reports whether nothing is hidden.
func (v View) Whole() bool { return v.whole }

// Shows reports whether a condition may be seen.
func (v View) Shows(conditionID string) bool { return v.whole || v.visible.Has(conditionID) }

// ViewOf is the view of a caller who asks about another user (CA-24).
func ViewOf(ctx context.Context, chain *authorize.Chain, caller user.Info, questions ...authorizer.Attributes) View {
	s := newSight(ctx, chain, caller)
	v := View{whole: s.all, visible: sets.New[string]()}
	for _, attrs := range questions {
		if !v.whole {
			v.visible = v.visible.Union(s.visible(rulesBehind(ctx, chain, chain.Scoped(attrs))))
		}
	}
	return v
}

// Everything is the view of a caller who asks about themselves.
func Everything() View { return View{whole: true} }

func hidden(c authz.Condition) authz.Condition {
	return authz.Condition{ID: c.ID, Effect: c.Effect, Type: c.Type, Description: unseen}
}

// rulesBehind lists every rule of the chain that applies to a request.
func rulesBehind(ctx context.Context, chain *authorize.Chain, attrs authorizer.Attributes) (all []authorize.Applied) {
	for _, l := range chain.Links() {
		if tracer, ok := l.Authorizer.(authorize.RuleTracer); ok {
			all = append(all, tracer.Applying(ctx, attrs)...)
		}
	}
	return all
}

// withhold removes from an answer about another subject what the caller may not see.
func (s *sight) withhold(status *authz.SubjectAccessReviewStatus, rules []authorize.Applied) {
	if s.all {
		return
	}
	blind := slices.ContainsFunc(rules, func(r authorize.Applied) bool { return !s.of(r.Hit.Role()) })
	if blind {
		for _, text := range []*string{&status.AllowReason, &status.DenyReason, &status.EvaluationError} {
			if *text != "" {
				*text = unseen
			}
		}
	}
	if status.Trace == nil {
		return
	}
	if blind && status.Trace.NarrowedTo != "" {
		status.Trace.NarrowedTo = unseen
	}
	for i := range status.Trace.Authorizers {
		s.withholdTrace(&status.Trace.Authorizers[i])
	}
	if status.Trace.Remedy != nil {
		if blind || hasGuards(status.Trace) {
			status.Trace.Remedy.Change = nil
		}
		for i := range status.Trace.Remedy.Remove {
			s.withholdRule(&status.Trace.Remedy.Remove[i])
		}
	}
}

func (s *sight) withholdTrace(a *authz.AuthorizerTrace) {
	blind := len(a.Conditions) > 0
	for i := range a.Conditions {
		a.Conditions[i].Condition, a.Conditions[i].Error, a.Conditions[i].Parts = hidden(a.Conditions[i].Condition), "", nil
	}
	for i := range a.Rules {
		blind = s.withholdRule(&a.Rules[i]) || blind
	}
	if (blind || a.MoreRules > 0) && a.Reason != "" {
		a.Reason = unseen
	}
	if blind && a.Error != "" {
		a.Error = unseen
	}
}

// withholdRule shows of a rule that it is there, which role and binding it comes from, and whether it decides.
func (s *sight) withholdRule(r *authz.RuleTrace) bool {
	if s.of(refOf(r.Role)) {
		return false
	}
	r.Rule = unseen
	if r.Condition != nil {
		r.Condition.Condition, r.Condition.Error, r.Condition.Parts = hidden(r.Condition.Condition), "", nil
	}
	return true
}
