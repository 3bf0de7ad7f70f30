package auditrule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// flattenClass turns the rules of a class into predicates, one list per rule. What the API server's validation would
// have refused is an error here as well: guessing could hide requests from a sink.
func flattenClass(c *v1alpha1.AuditClass) ([][]*predicate, error) {
	if len(c.Spec.Rules) == 0 {
		return nil, fmt.Errorf("audit class %q: spec.rules: has no rule; a class needs at least one", c.Name)
	}
	rules := make([][]*predicate, len(c.Spec.Rules))
	for i := range c.Spec.Rules {
		alternatives, err := flattenRule(&c.Spec.Rules[i])
		if err != nil {
			return nil, fmt.Errorf("audit class %q: spec.rules[%d].%w", c.Name, i, err)
		}
		rules[i] = alternatives
	}
	return rules, nil
}

func flattenRule(r *v1alpha1.Rule) ([]*predicate, error) {
	users, groups, err := flattenSubjects(r.Subjects)
	if err != nil {
		return nil, err
	}
	if r.AllSubjects && (len(users) == 0 || len(groups) == 0) {
		return nil, errors.New("allSubjects: needs subjects of type User and of type UserGroup")
	}
	base := predicate{users: users, groups: groups, both: r.AllSubjects, verbs: r.Verbs}
	if err := flattenDecision(&base, r); err != nil {
		return nil, err
	}
	if slices.Contains(r.Verbs, wildcard) {
		base.verbs = nil
	}
	switch {
	case len(r.GroupResourceSelectors) > 0 && len(r.NonResourceSelectors) > 0:
		return nil, fmt.Errorf("nonResourceSelectors: cannot be used together with groupResourceSelectors; split them into two rules")
	case len(r.GroupResourceSelectors) > 0:
		return flattenResources(base, r.GroupResourceSelectors)
	case len(r.NonResourceSelectors) > 0:
		base.target = targetPath
		for i, s := range r.NonResourceSelectors {
			if len(s.URLs) == 0 {
				return nil, fmt.Errorf("nonResourceSelectors[%d].urls: is empty; list the paths, or \"*\" for all of them", i)
			}
			base.paths = append(base.paths, s.URLs...)
		}
	}
	return []*predicate{&base}, nil
}

func flattenSubjects(subjects []v1alpha1.SubjectSelector) (users, groups []string, err error) {
	for i, s := range subjects {
		if len(s.Names) == 0 {
			return nil, nil, fmt.Errorf("subjects[%d].names: is empty; name whom the rule is about, or leave subjects out for everybody", i)
		}
		switch s.Type {
		case v1alpha1.SubjectUser, "Users":
			users = append(users, s.Names...)
		case v1alpha1.SubjectUserGroup, "Group":
			groups = append(groups, s.Names...)
		default:
			return nil, nil, fmt.Errorf("subjects[%d].type: %q is neither User nor UserGroup", i, s.Type)
		}
	}
	return users, groups, nil
}

// flattenResources merges all resources that differ only in group and kind into one predicate, so a rule that lists
// twenty kinds stays one predicate.
func flattenResources(base predicate, selectors []v1alpha1.GroupResourceSelector) ([]*predicate, error) {
	base.target = targetResource
	var out []*predicate
	byShape := map[string]*predicate{}
	for i := range selectors {
		s := &selectors[i]
		scoped := base
		if err := flattenScope(&scoped, s); err != nil {
			return nil, fmt.Errorf("groupResourceSelectors[%d].%w", i, err)
		}
		resources := s.Resources
		if len(resources) == 0 { // everything in the group, as in an audit policy: pods/exec must not slip through
			resources = []v1alpha1.ResourceSelector{{Kind: wildcard, Subresources: []string{wildcard}}}
		}
		for j := range resources {
			p := scoped
			if err := flattenResource(&p, &resources[j]); err != nil {
				return nil, fmt.Errorf("groupResourceSelectors[%d].resources[%d].%w", i, j, err)
			}
			pair := groupResource{s.Group, resources[j].Kind}
			shape := p.shape()
			if same := byShape[shape]; same != nil {
				if !slices.Contains(same.pairs, pair) {
					same.pairs = append(same.pairs, pair)
				}
				continue
			}
			p.pairs = []groupResource{pair}
			byShape[shape] = &p
			out = append(out, &p)
		}
	}
	return out, nil
}

func flattenScope(p *predicate, s *v1alpha1.GroupResourceSelector) error {
	for i, ns := range s.Namespaces {
		if ns.Name == "" {
			return fmt.Errorf("namespaces[%d].name: is empty; use scope Cluster for requests without a namespace", i)
		}
		p.namespaces = append(p.namespaces, ns.Name)
	}
	switch s.Scope {
	case v1alpha1.ScopeAny, "":
		p.scope = scopeAny
	case v1alpha1.ScopeCluster:
		p.scope = scopeCluster
	case v1alpha1.ScopeNamespaced:
		p.scope = scopeNamespaced
		if len(p.namespaces) > 0 {
			p.scope = scopeListed
		}
	default:
		return fmt.Errorf("scope: %q is not Any, Cluster or Namespaced", s.Scope)
	}
	if len(p.namespaces) > 0 && p.scope != scopeListed {
		return fmt.Errorf("namespaces: need scope Namespaced, not %q", s.Scope)
	}
	return nil
}

func flattenResource(p *predicate, r *v1alpha1.ResourceSelector) error {
	switch {
	case r.Kind == "":
		return fmt.Errorf("kind: is empty; name the resource, or \"*\" for every resource of the group")
	case strings.Contains(r.Kind, "/"):
		return fmt.Errorf("kind: %q contains a slash; name subresources in subresources", r.Kind)
	}
	p.names = r.ObjectNames
	switch {
	case len(r.Subresources) == 0:
		p.subresources = subNone
	case slices.Contains(r.Subresources, wildcard):
		p.subresources = subAll
	default:
		p.subresources, p.subNames = subListed, r.Subresources
		for i, sub := range r.Subresources {
			if sub == "" || strings.Contains(sub, "/") {
				return fmt.Errorf("subresources[%d]: %q is not the name of a subresource", i, sub)
			}
		}
	}
	return nil
}

// shape identifies the conditions of a resource predicate other than subject, verb and the pairs of group and resource.
func (p *predicate) shape() string {
	var b strings.Builder
	list := func(kind byte, names []string) {
		b.WriteByte(kind)
		sorted := slices.Clone(names)
		slices.Sort(sorted)
		for _, n := range sorted {
			fmt.Fprintf(&b, "%d:%s", len(n), n)
		}
		b.WriteByte(';')
	}
	list('0'+byte(p.subresources), p.subNames)
	list('n', p.names)
	list('0'+byte(p.scope), p.namespaces)
	return b.String()
}
