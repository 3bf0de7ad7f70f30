package auditrule

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// wantLevel is DA-2 and DA-3 read aloud, straight from the API types and without any of the engine's parts.
func wantLevel(policy *v1alpha1.Policy, classes []*v1alpha1.AuditClass, a authorizer.Attributes) string {
	for _, rule := range policy.Rules {
		for _, class := range classes {
			if class.Name == rule.WithAuditClass && slices.ContainsFunc(class.Spec.Rules, func(r v1alpha1.Rule) bool { return selects(&r, a) }) {
				return string(rule.Level)
			}
		}
	}
	if policy.Level == "" {
		return "None"
	}
	return string(policy.Level)
}

func selects(r *v1alpha1.Rule, a authorizer.Attributes) bool {
	if len(r.Subjects) > 0 {
		found := map[v1alpha1.SubjectType]bool{}
		for _, s := range r.Subjects {
			if u := a.GetUser(); u != nil && s.Type == v1alpha1.SubjectUser {
				found[s.Type] = found[s.Type] || slices.Contains(s.Names, u.GetName())
			} else if u != nil {
				found[s.Type] = found[s.Type] || slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(s.Names, g) })
			}
		}
		user, group := found[v1alpha1.SubjectUser], found[v1alpha1.SubjectUserGroup]
		if r.AllSubjects && !(user && group) || !user && !group {
			return false
		}
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, "*") && !slices.Contains(r.Verbs, a.GetVerb()) {
		return false
	}
	if len(r.GroupResourceSelectors) > 0 {
		return a.IsResourceRequest() && slices.ContainsFunc(r.GroupResourceSelectors, func(s v1alpha1.GroupResourceSelector) bool { return selectsResource(&s, a) })
	}
	if len(r.NonResourceSelectors) > 0 {
		return !a.IsResourceRequest() && slices.ContainsFunc(r.NonResourceSelectors, func(s v1alpha1.NonResourceSelector) bool {
			return slices.ContainsFunc(s.URLs, func(url string) bool {
				if before, ok := strings.CutSuffix(url, "*"); ok {
					return strings.HasPrefix(a.GetPath(), before)
				}
				return a.GetPath() == url
			})
		})
	}
	return true
}

func selectsResource(s *v1alpha1.GroupResourceSelector, a authorizer.Attributes) bool {
	if s.Group != "*" && s.Group != a.GetAPIGroup() {
		return false
	}
	switch s.Scope {
	case v1alpha1.ScopeCluster:
		if a.GetNamespace() != "" {
			return false
		}
	case v1alpha1.ScopeNamespaced:
		if a.GetNamespace() == "" || len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, v1alpha1.NamespaceSelector{Name: a.GetNamespace()}) {
			return false
		}
	}
	if len(s.Resources) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Resources, func(r v1alpha1.ResourceSelector) bool {
		if r.Kind != "*" && r.Kind != a.GetResource() {
			return false
		}
		if len(r.ObjectNames) > 0 && !slices.Contains(r.ObjectNames, a.GetName()) {
			return false
		}
		if len(r.Subresources) == 0 {
			return a.GetSubresource() == ""
		}
		return slices.Contains(r.Subresources, "*") || slices.Contains(r.Subresources, a.GetSubresource())
	})
}
