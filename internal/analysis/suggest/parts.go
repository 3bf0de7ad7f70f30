package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
)

// line is a rule in the making: lists are ordered.
type line struct {
	namespace, group               string
	resources, verbs, names, paths []string
	place                          rulePlace
	rule                           *policyv1alpha1.PolicyRule
	// where is a condition of its own, instead of names.
	where string
}

// parts makes rules of the rights: verbs of the same objects first, then resources with the same verbs.
func (s *suggester) parts() []Part {
	lines := s.lines()
	lines = join(lines, func(l *line) *[]string { return &l.verbs })
	lines = join(lines, func(l *line) *[]string { return &l.resources })
	lines = join(lines, func(l *line) *[]string { return &l.paths })
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), slices.Compare(a.resources, b.resources), slices.Compare(a.names, b.names), slices.Compare(a.verbs, b.verbs),
			slices.Compare(a.paths, b.paths), cmp.Compare(a.where, b.where), cmp.Compare(a.place.role.Name, b.place.role.Name), cmp.Compare(a.place.index, b.place.index))
	})
	var parts []Part
	for _, l := range lines {
		if len(parts) == 0 || parts[len(parts)-1].Namespace != l.namespace {
			parts = append(parts, Part{Namespace: l.namespace})
		}
		p := &parts[len(parts)-1]
		// A role of Policy in the master namespace holds everywhere: only a right that has a condition is one there.
		local := l.namespace != "" && l.namespace != s.Index.MasterNamespace()
		if l.rule != nil || l.where != "" || l.place.master || s.Policy && local && !slices.ContainsFunc(l.resources, connects) {
			p.Policy = append(p.Policy, l.policy())
			continue
		}
		p.RBAC = append(p.RBAC, l.rbac())
	}
	return parts
}

// connects reports whether a subresource is one on which the verbs of Policy mean more than they say.
func connects(resource string) bool {
	_, sub, _ := strings.Cut(resource, "/")
	return connect.Connects(sub)
}

// lines are one for each right, or several if there are too many names to leave them out.
func (s *suggester) lines() (lines []line) {
	for at, o := range s.rights {
		l := line{namespace: at.namespace, group: at.group, verbs: []string{at.verb}, place: at.rule, rule: o.rule}
		if at.path != "" {
			l.paths = []string{at.path}
			lines = append(lines, l)
			continue
		}
		resource := at.resource
		if at.sub != "" {
			resource += "/" + at.sub
		}
		l.resources = []string{resource}
		names := slices.Sorted(maps.Keys(o.names))
		if o.all || len(names) == 0 {
			lines = append(lines, l)
			continue
		}
		if len(names) > s.MaxNames && s.anyName(l) {
			if l.where = s.where(at, o.names); l.where != "" {
				s.wheres = append(s.wheres, l.where)
			}
			lines = append(lines, l)
			continue
		}
		for some := range slices.Chunk(names, s.MaxNames) {
			l.names = some
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), slices.Compare(a.resources, b.resources), slices.Compare(a.verbs, b.verbs), slices.Compare(a.names, b.names),
			slices.Compare(a.paths, b.paths), cmp.Compare(a.where, b.where), cmp.Compare(a.place.role.Name, b.place.role.Name), cmp.Compare(a.place.role.Namespace, b.place.role.Namespace), cmp.Compare(a.place.index, b.place.index))
	})
	return lines
}

// anyName reports whether a right is held for every name.
func (s *suggester) anyName(l line) bool {
	if l.rule != nil || l.place.master {
		return s.covered(l.namespace, nil, []policyv1alpha1.PolicyRule{l.policy()}) == nil
	}
	return s.covered(l.namespace, []rbacv1.PolicyRule{l.rbac()}, nil) == nil
}

// join makes one line of those that differ in one list only.
func join(lines []line, part func(*line) *[]string) (out []line) {
	at := map[string]int{}
	for _, l := range lines {
		rest := l
		*part(&rest), rest.rule = nil, nil
		if len(*part(&l)) == 0 {
			out = append(out, l)
			continue
		}
		key := fmt.Sprintf("%q", []any{rest.namespace, rest.group, rest.resources, rest.verbs, rest.names, rest.paths, rest.where, fmt.Sprint(rest.place)})
		if i, seen := at[key]; seen {
			list := part(&out[i])
			*list = append(slices.Clone(*list), *part(&l)...)
			slices.Sort(*list)
			*list = slices.Compact(*list)
			continue
		}
		at[key] = len(out)
		out = append(out, l)
	}
	return out
}

func (l line) rbac() rbacv1.PolicyRule {
	if len(l.paths) > 0 {
		return rbacv1.PolicyRule{Verbs: l.verbs, NonResourceURLs: l.paths}
	}
	return rbacv1.PolicyRule{Verbs: l.verbs, APIGroups: []string{l.group}, Resources: l.resources, ResourceNames: l.names}
}

// policy says the same in Policy, in which update covers patch and delete covers deletecollection: what was not seen is
// taken out.
func (l line) policy() policyv1alpha1.PolicyRule {
	rule := policyv1alpha1.PolicyRule{Verbs: slices.Clone(l.verbs), APIGroups: []string{l.group}, ResourceKinds: l.resources, ResourceNames: l.names}
	for _, pair := range [][2]string{{"update", "patch"}, {"delete", "deletecollection"}} {
		if slices.Contains(l.verbs, pair[0]) && !slices.Contains(l.verbs, pair[1]) {
			rule.Verbs = append(rule.Verbs, "-"+pair[1])
		}
	}
	if r := l.rule; r != nil {
		rule.Where, rule.When, rule.APIVersion, rule.AttributeRestrictions, rule.Description = r.Where, r.When, r.APIVersion, r.AttributeRestrictions, r.Description
	}
	if l.where != "" {
		rule.Where = l.where
	}
	return rule
}
