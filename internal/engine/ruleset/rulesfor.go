package ruleset

import (
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Rules is what a user may do as SelfSubjectRulesReview shows it.
type Rules struct {
	Resources    []authorizer.ResourceRuleInfo
	NonResources []authorizer.NonResourceRuleInfo
	// Incomplete is true if there is more to it: deny rules, conditions or negations apply.
	Incomplete bool
	// Err names the bindings whose role does not exist.
	Err error
}

// RBACRulesFor lists the RBAC rules of a user in a namespace, as upstream's authorizer does.
func (ix *Index) RBACRulesFor(u user.Info, namespace string) Rules {
	var out Rules
	out.Err = ix.visitRoles(u, namespace, TierRBAC, func(r *role) { out.listRBAC(r, true) })
	return out
}

// listRBAC lists the rules of a role of RBAC. URLs belong to no namespace.
func (out *Rules) listRBAC(r *role, everywhere bool) {
	for i := range r.RBAC {
		src := &r.RBAC[i]
		if len(src.Resources) > 0 {
			out.Resources = append(out.Resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: src.Verbs, APIGroups: src.APIGroups, Resources: src.Resources, ResourceNames: src.ResourceNames})
		}
		if len(src.NonResourceURLs) > 0 && everywhere {
			out.NonResources = append(out.NonResources, &authorizer.DefaultNonResourceRuleInfo{
				Verbs: src.Verbs, NonResourceURLs: src.NonResourceURLs})
		}
	}
}

// PolicyRulesFor lists the allow rules of Policy of a user in a namespace. The review knows neither denial, negation
// nor conditions: conditional rules are left out, negated wildcards are written out as what is served now, and the
// result is marked incomplete. What is listed is never more than what the rules allow, but that a * does not name the
// special verbs.
func (ix *Index) PolicyRulesFor(u user.Info, namespace string) Rules {
	var out Rules
	master := ix.visitRoles(u, namespace, TierMaster, func(r *role) { ix.listPolicy(&out, r, true) })
	local := ix.visitRoles(u, namespace, TierNamespace, func(r *role) { ix.listPolicy(&out, r, false) })
	out.Err = errors.Join(master, local)
	return out
}

// visitRoles visits the roles of a user in a tier, each once.
func (ix *Index) visitRoles(u user.Info, namespace string, tier Tier, visit func(*role)) error {
	var q Query
	q.Reset(ix, &authorizer.AttributesRecord{User: u, Namespace: namespace, ResourceRequest: true})
	var seen []uint32
	for _, kind := range q.scopes(tier) {
		for s, i := q.next(0); s != nil && kind != 0; s, i = q.next(i) {
			for _, g := range q.grants(s, kind) {
				seen = append(seen, g.id)
			}
		}
	}
	slices.Sort(seen)
	for _, id := range slices.Compact(seen) {
		if r := ix.slots.Get(id); r != nil {
			visit(r)
		}
	}
	return q.Errors(tier)
}

func (ix *Index) listPolicy(out *Rules, r *role, master bool) {
	if r.Ref.Kind == ClusterRole {
		out.listRBAC(r, master)
		return
	}
	if !r.deny.Empty() || len(r.problems) > 0 {
		out.Incomplete = true
	}
	for i, ru := range r.Rules {
		src := &r.Policy[i]
		if ru == nil || ru.Deny {
			continue
		}
		if ru.Cond != nil {
			out.Incomplete = true
			continue
		}
		verbs, exact := listVerbs(src.Verbs)
		if !exact {
			out.Incomplete = true
		}
		if len(src.ResourceKinds) > 0 {
			ix.listResources(out, src, ru, verbs)
		}
		if len(src.NonResourceURLs) > 0 && master {
			out.NonResources = append(out.NonResources,
				&authorizer.DefaultNonResourceRuleInfo{Verbs: verbs, NonResourceURLs: src.NonResourceURLs})
		}
	}
}

// listVerbs writes a list of verbs in RBAC's terms. RBAC's * is everything, so it stands only for a plain * here.
func listVerbs(written []string) (list []string, exact bool) {
	positive, negative, _ := splitVerbs(written)
	set := matching.PolicyVerbs(positive, negative, false)
	if set.Full {
		return []string{matching.VerbAll}, true
	}
	for _, v := range verbs.All() {
		if set.Masks[matching.FamilyNone]&matching.BitOf(v) != 0 {
			list = append(list, v)
		}
	}
	for _, v := range set.Named {
		if !slices.Contains(set.Negated, v) {
			list = append(list, v)
		}
	}
	return list, len(negative) == 0
}

// listResources writes the kinds of a rule in RBAC's terms.
func (ix *Index) listResources(out *Rules, src *policyv1alpha1.PolicyRule, ru *matching.Rule, verbs []string) {
	groups := ru.Groups
	if groups == nil {
		groups = []string{"*"}
	}
	add := func(groups []string, resource string) {
		out.Resources = append(out.Resources, &authorizer.DefaultResourceRuleInfo{
			Verbs: verbs, APIGroups: groups, Resources: []string{resource}, ResourceNames: src.ResourceNames})
	}
	if len(ru.Negs) > 0 {
		out.Incomplete = true
		for _, gr := range ix.covered(ru) {
			add([]string{gr.Group}, gr.Resource)
		}
		return
	}
	for _, p := range ru.Patterns {
		if p.NotIn != nil {
			// RBAC has no word for all groups but some.
			out.Incomplete = true
			for _, gr := range coveredBy(ix.kinds, ru, []matching.Pattern{p}) {
				q := p
				q.Group, q.AnyGroup, q.NotIn = gr.Group, false, nil
				listPattern(out, q, groups, add)
			}
			continue
		}
		listPattern(out, p, groups, add)
	}
}

// listPattern writes one kind of a rule in RBAC's terms.
func listPattern(out *Rules, p matching.Pattern, groups []string, add func(groups []string, resource string)) {
	if !p.AnyGroup {
		if groups[0] != "*" && !slices.Contains(groups, p.Group) {
			return
		}
		groups = []string{p.Group}
	}
	res := p.Res
	if p.AnyRes {
		res = "*"
	}
	switch p.Mode {
	case matching.SubExact:
		add(groups, res+"/"+p.Sub)
	case matching.SubAny:
		out.Incomplete = true // RBAC has no word for every subresource of one resource
	default:
		add(groups, res)
	}
}
