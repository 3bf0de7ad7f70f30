package policyreview

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
)

// refusedBy is what to do about a link without rules that refuses.
func refusedBy(link string) string {
	if link == links.Token {
		return "the token refuses it, and no grant changes that: the user without the token is decided by the rest of the chain; ask them for a token whose links allow it"
	}
	return fmt.Sprintf("%s refuses it, and no grant of the verb changes that", link)
}

// remedy is what would make the request allowed: a change of the object; or the deny rules that have to go, and the
// grant that is missing. A rule that is in force cannot be overruled by another of the same place, so that all of them
// are listed.
func (q *inquiry) remedy(ctx context.Context, steps []*traced) *authz.Remedy {
	out := &authz.Remedy{Change: q.change(ctx, steps)}
	allowed, local, open := false, false, false
	for _, t := range steps {
		if t.rules == nil && t.shown.Answer == authz.AnswerDeny {
			out.Note = refusedBy(t.shown.Name)
			return out
		}
		open = open || t.Open && t.Answer.PossibleDecisions().Has(authorizer.DecisionDeny)
		for i := range t.rules {
			rule := t.rules[i]
			open = open || rule.Hit.Effect() == ruleset.Denies && !rule.Yields && !t.folded && t.values[i].Value == authz.ConditionUnknown
			switch {
			case !t.inForce(i):
			case rule.Hit.Effect() == ruleset.Allows:
				allowed = true
			default:
				out.Remove = append(out.Remove, t.rule(i))
				tracer, ok := t.Link.Authorizer.(authorize.RuleTracer)
				local = local || ok && tracer.Tier() == ruleset.TierNamespace
			}
		}
	}
	if !allowed {
		out.Grant = q.grant(ctx)
		if out.Grant == "" {
			out.Note = "neither RBAC nor Policy is in the chain: ask an administrator of the other authorizers"
		}
	}
	switch {
	case out.Note != "":
	case open:
		out.Note = "conditions that deny still apply"
	case local:
		out.Note = "a deny of the namespace is overridden by cluster-wide grants"
	}
	if len(out.Change)+len(out.Remove) == 0 && out.Grant == "" && out.Note == "" {
		return nil
	}
	return out
}

// grant is the smallest grant of the request: one rule with the one verb, resource and name, bound to the one subject,
// where the request is. RBAC is preferred, if the chain has it: its verbs mean no more than they say (in Policy, update
// includes patch), and a grant of it holds in one namespace even in the master namespace. An update of fields that
// permissions cover needs these alone (FP-21).
func (q *inquiry) grant(ctx context.Context) string {
	var rbac, policy bool
	for _, l := range q.Gate.Chain.Links() {
		if t, ok := l.Authorizer.(authorize.RuleTracer); ok {
			rbac = rbac || t.Tier() == ruleset.TierRBAC
			policy = policy || t.Tier() == ruleset.TierMaster
		}
	}
	attrs, verbs := q.Gate.Chain.Scoped(q.attrs), q.fieldGrant(ctx)
	if verbs == nil {
		verbs = []string{q.attrs.Verb}
	}
	switch {
	case rbac:
		return rbacGrant(attrs, verbs)
	case policy:
		return policyGrant(attrs, verbs, q.Master)
	}
	return ""
}

func rbacGrant(a authorizer.Attributes, verbs []string) string {
	rule := rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{a.GetAPIGroup()}, Resources: []string{a.GetResource()}}
	if sub := a.GetSubresource(); sub != "" {
		rule.Resources[0] += "/" + sub
	}
	if name := a.GetName(); name != "" {
		rule.ResourceNames = []string{name}
	}
	if !a.IsResourceRequest() {
		rule = rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: []string{a.GetPath()}}
	} else if a.GetResource() == "*" {
		rule.APIGroups = []string{"*"}
	}
	meta := metav1.ObjectMeta{Name: grantName(a), Namespace: a.GetNamespace()}
	kind := ""
	if meta.Namespace == "" {
		kind = "Cluster"
	}
	who := subjectOf(grantee(a))
	subject := rbacv1.Subject{Kind: who.Kind, Namespace: who.Namespace, Name: who.Name}
	if who.Kind != rbacv1.ServiceAccountKind {
		subject.APIGroup = rbacv1.GroupName
	}
	version := rbacv1.SchemeGroupVersion.String()
	return documents(
		rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind + "Role"}, ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind + "RoleBinding"}, ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind + "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{subject}},
	)
}

// policyGrant is a role of the namespace, or of the master namespace for what has none.
func policyGrant(a authorizer.Attributes, verbs []string, master string) string {
	kind := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}.String()
	if sub := a.GetSubresource(); sub != "" {
		kind += "/" + sub
	}
	rule := policyv1alpha1.PolicyRule{Verbs: verbs, APIGroups: []string{a.GetAPIGroup()}, ResourceKinds: []string{kind}}
	if name := a.GetName(); name != "" {
		rule.ResourceNames = []string{name}
	}
	switch {
	case !a.IsResourceRequest():
		rule = policyv1alpha1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: []string{a.GetPath()}}
	case a.GetResource() == "*":
		rule.APIGroups = nil
	}
	namespace := a.GetNamespace()
	if namespace == "" {
		namespace = master
	}
	meta := metav1.ObjectMeta{Name: grantName(a), Namespace: namespace}
	version := authz.SchemeGroupVersion.String()
	binding := authz.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef: authz.RoleRef{Namespace: namespace, Name: meta.Name}}
	if who := grantee(a); who.Group {
		binding.GroupNames = []string{who.Name}
	} else {
		binding.UserNames = []string{who.Name}
	}
	return documents(authz.Role{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: meta, Rules: []policyv1alpha1.PolicyRule{rule}}, binding)
}

// grantee is whom the grant is bound to: the user, or the group that an unnamed member stands for.
func grantee(a authorizer.Attributes) ruleset.Subject {
	u := a.GetUser()
	if u.GetName() == "" && len(u.GetGroups()) > 0 {
		return ruleset.Subject{Group: true, Name: u.GetGroups()[0]}
	}
	return ruleset.Subject{Name: u.GetName()}
}

// grantName is a name for the role, from what it says.
func grantName(a authorizer.Attributes) string {
	parts := []string{"allow", grantee(a).Name, a.GetVerb(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetPath()}
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, strings.Join(parts, "-"))
	if len(name) > 60 {
		name = name[:60]
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' })
	return strings.Join(words, "-")
}

// documents are objects as YAML, one after the other, without a status that nobody has set.
func documents(objects ...any) string {
	var texts []string
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return ""
		}
		texts = append(texts, strings.Replace(string(text), "status: {}\n", "", 1))
	}
	return strings.Join(texts, "---\n")
}
