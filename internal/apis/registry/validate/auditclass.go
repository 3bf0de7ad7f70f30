package validate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// AuditClass checks a class.
func AuditClass(c *audit.AuditClass) field.ErrorList {
	errs := subdomainName(c.Name)
	path := field.NewPath("spec", "rules")
	if len(c.Spec.Rules) == 0 {
		errs = append(errs, field.Required(path, "a class has at least one rule"))
	}
	for i, rule := range c.Spec.Rules {
		errs = append(errs, auditRule(rule, path.Index(i))...)
	}
	return errs
}

func auditRule(r audit.Rule, path *field.Path) (errs field.ErrorList) {
	if len(r.GroupResourceSelectors) > 0 && len(r.NonResourceSelectors) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nonResourceSelectors"), "excludes groupResourceSelectors: no request has both; use two rules"))
	}
	for i, s := range r.Subjects {
		errs = append(errs, subjects(s, path.Child("subjects").Index(i))...)
	}
	if has := func(t audit.SubjectType) bool {
		return slices.ContainsFunc(r.Subjects, func(s audit.SubjectSelector) bool { return s.Type == t })
	}; r.AllSubjects && !(has(audit.SubjectUser) && has(audit.SubjectUserGroup)) {
		errs = append(errs, field.Invalid(path.Child("allSubjects"), true, "asks for a user and a group: name subjects of type User and of type UserGroup"))
	}
	for i, v := range r.Verbs {
		if strings.TrimSpace(v) == "" || strings.ToLower(v) != v {
			errs = append(errs, field.Invalid(path.Child("verbs").Index(i), v, `must be a verb in lower case, such as create or watch, or "*"`))
		}
	}
	for i, d := range r.Decisions {
		switch d {
		case audit.DecisionAllow, audit.DecisionDeny, audit.DecisionNoOpinion:
		default:
			errs = append(errs, field.NotSupported(path.Child("decisions").Index(i), d, []audit.Decision{audit.DecisionAllow, audit.DecisionDeny, audit.DecisionNoOpinion}))
		}
	}
	for i, s := range r.GroupResourceSelectors {
		errs = append(errs, groupResources(s, path.Child("groupResourceSelectors").Index(i))...)
	}
	for i, s := range r.NonResourceSelectors {
		at := path.Child("nonResourceSelectors").Index(i).Child("urls")
		if len(s.URLs) == 0 {
			errs = append(errs, field.Required(at, "name at least one path"))
		}
		for j, u := range s.URLs {
			errs = append(errs, pathPattern(u, at.Index(j))...)
		}
	}
	return errs
}

func subjects(s audit.SubjectSelector, path *field.Path) (errs field.ErrorList) {
	switch s.Type {
	case audit.SubjectUser, audit.SubjectUserGroup:
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, []audit.SubjectType{audit.SubjectUser, audit.SubjectUserGroup}))
	}
	if len(s.Names) == 0 {
		errs = append(errs, field.Required(path.Child("names"), "name at least one user or group"))
	}
	for i, n := range s.Names {
		if n == "" {
			errs = append(errs, field.Invalid(path.Child("names").Index(i), n, "must name a user or group"))
		}
	}
	return errs
}

func groupResources(s audit.GroupResourceSelector, path *field.Path) (errs field.ErrorList) {
	if g := s.Group; g != "" && g != "*" {
		if msgs := validation.IsDNS1123Subdomain(g); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("group"), g, `must be an API group, such as apps, "" for the core group, or "*" for all`))
		}
	}
	for i, r := range s.Resources {
		at := path.Child("resources").Index(i)
		if strings.Contains(r.Kind, "/") {
			errs = append(errs, field.Invalid(at.Child("kind"), r.Kind, "must be a resource alone; put the part after the slash into subresources"))
		} else if !oneResource(r.Kind) {
			errs = append(errs, field.Invalid(at.Child("kind"), r.Kind, `must be a resource in its plural and in lower case, such as secrets, or "*" for all`))
		}
		for j, sub := range r.Subresources {
			if !oneResource(sub) {
				errs = append(errs, field.Invalid(at.Child("subresources").Index(j), sub, `must be a subresource, such as status, or "*" for all`))
			}
		}
		for j, n := range r.ObjectNames {
			if n == "" {
				errs = append(errs, field.Invalid(at.Child("objectNames").Index(j), n, "must name an object"))
			}
		}
	}
	scopes := []audit.ScopeType{audit.ScopeAny, audit.ScopeCluster, audit.ScopeNamespaced}
	if s.Scope != "" && !slices.Contains(scopes, s.Scope) {
		errs = append(errs, field.NotSupported(path.Child("scope"), s.Scope, scopes))
	} else if len(s.Namespaces) > 0 && s.Scope != audit.ScopeNamespaced {
		errs = append(errs, field.Forbidden(path.Child("namespaces"), "limits the scope Namespaced; set scope: Namespaced as well"))
	}
	for i, n := range s.Namespaces {
		if msgs := validation.IsDNS1123Label(n.Name); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("namespaces").Index(i).Child("name"), n.Name, "must be the name of a namespace: "+msgs[0]))
		}
	}
	return errs
}

func oneResource(name string) bool {
	return name == "*" || len(validation.IsDNS1123Label(name)) == 0
}
