package registry

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/shadow"
)

// ShadowRules knows what rules that are not enforced would have changed.
type ShadowRules interface {
	// List lists all of them, in order.
	List() []shadow.Report
}

// shadowRules serves what is not enforced, for reading (TR-6). Reading it is a separate right, since it names users and
// objects.
type shadowRules = computed[authz.ShadowRule, *authz.ShadowRule]

// newShadowRules shows what the rules of a namespace would have changed in that namespace, and what has no namespace in
// the master namespace.
func newShadowRules(rules ShadowRules, master string) *shadowRules {
	return &shadowRules{
		table:    table[*authz.ShadowRule]{columns: shadowColumns(), resource: authz.Resource("shadowrules")},
		singular: "shadowrule", short: "shadow", plain: "rules that are not enforced", namespaced: true,
		list: func(items []authz.ShadowRule) runtime.Object { return &authz.ShadowRuleList{Items: items} },
		find: func(_ context.Context, namespace string, _ fields.Selector) ([]authz.ShadowRule, error) {
			var all []authz.ShadowRule
			for _, report := range rules.List() {
				if rule := shadowRule(report, master); namespace == "" || rule.Namespace == namespace {
					all = append(all, rule)
				}
			}
			return all, nil
		},
		matches: func(selector fields.Selector, r *authz.ShadowRule) bool {
			return selector.Matches(fields.Set{"metadata.name": r.Name, "metadata.namespace": r.Namespace})
		},
	}
}

func shadowRule(r shadow.Report, master string) authz.ShadowRule {
	out := authz.ShadowRule{
		ObjectMeta:  metav1.ObjectMeta{Name: r.Object(), Namespace: r.Namespace, CreationTimestamp: metav1.NewTime(r.Since)},
		About:       authz.ShadowedObject{Kind: string(r.Kind), Namespace: r.Namespace, Name: r.Name},
		Enforcement: r.Enforcement, Denies: r.Denies, Description: r.Description,
		Status: authz.ShadowRuleStatus{Since: metav1.NewTime(r.Since), Applied: r.Applied, WouldAllow: r.WouldAllow, WouldDeny: r.WouldDeny, Undecided: r.Undecided},
	}
	if out.Namespace == "" {
		out.Namespace = master
	}
	if r.Kind == shadowrule.Role {
		index := int32(r.Index)
		out.About.Rule = &index
	}
	for _, f := range r.Flips {
		out.Status.Flips = append(out.Status.Flips, authz.ShadowFlip{
			Time: metav1.NewMicroTime(f.Time), User: f.User, Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource, Subresource: f.Subresource,
			Namespace: f.Namespace, Name: f.Name, Path: f.Path, Was: string(f.Was), Would: string(f.Would),
		})
	}
	return out
}

// shadowColumns are what `kubectl get shadowrules` shows.
func shadowColumns() []column[*authz.ShadowRule] {
	return []column[*authz.ShadowRule]{
		{name: "Enforcement", description: "Warn or Shadow.", cell: func(r *authz.ShadowRule) any { return string(r.Enforcement) }},
		{name: "Effect", description: "What the rule does: allow or deny.", cell: func(r *authz.ShadowRule) any {
			if r.Denies {
				return "deny"
			}
			return "allow"
		}},
		{name: "Applied", kind: "integer", description: "The number of requests that it applied to.", cell: func(r *authz.ShadowRule) any { return r.Status.Applied }},
		{name: "Would allow", kind: "integer", description: "The number of refused requests that it would have allowed.", cell: func(r *authz.ShadowRule) any { return r.Status.WouldAllow }},
		{name: "Would deny", kind: "integer", description: "The number of allowed requests that it would have denied.", cell: func(r *authz.ShadowRule) any { return r.Status.WouldDeny }},
		{name: "Undecided", kind: "integer", description: "The number of requests for which this is not known.", cell: func(r *authz.ShadowRule) any { return r.Status.Undecided }},
		{name: "Description", wide: true, description: "What the rule is for.", cell: func(r *authz.ShadowRule) any { return strings.TrimSpace(r.Description) }},
	}
}
