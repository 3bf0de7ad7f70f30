package suggest

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/escalation"
	"proviso.dev/proviso/internal/engine/verbs"
)

const (
	// fieldsVerb lets its holder try, and fieldPrefix begins the verbs of permissions for fields.
	fieldsVerb  = "granular"
	fieldPrefix = "granular:"
	// maxFields is how many permissions for fields are suggested for one kind in one namespace. A subject that needs
	// more writes the whole object.
	maxFields = 8
)

// Write is a recorded change of an object: what it requires of a subject that may only write single fields.
type Write struct {
	// Verbs are the permissions for the fields that changed, as verbs.
	Verbs []string
	// Allowed decides about the change, as the server would, by the permissions of a subject.
	Allowed func(has func(verb string) bool) bool
}

// place is a kind in a namespace.
type place struct{ namespace, group, resource, sub string }

func placeOf(u Use) place { return place{u.Namespace, u.Group, u.Resource, u.Subresource} }

func (u Use) with(verb string) Use {
	u.Verb = verb
	return u
}

// fieldwise finds the places of which every change that was seen is known and takes a few fields only. What a right to
// single fields allows is, but for exclusive fields, a part of what the verbs allow that it stands for: to create,
// update and patch. So these must be held.
func (s *suggester) fieldwise() map[place]bool {
	fields, out := map[place]map[string]bool{}, map[place]bool{}
	for _, u := range s.Uses {
		at := placeOf(u)
		if !verbs.Updates(u.Verb) || u.Path != "" {
			continue
		}
		known, seen := s.Writes[u], out[at]
		if fields[at] == nil {
			fields[at], seen = map[string]bool{}, true
		}
		rights := []string{fieldsVerb}
		for _, w := range known {
			for _, v := range w.Verbs {
				fields[at][v] = true
				rights = append(rights, v)
			}
		}
		out[at] = seen && len(known) > 0 && (at.sub == "" || at.sub == "status") && s.Index.Decide(u.attributes(s.Who)).Certainty == ruleset.Always && !s.masters() &&
			s.covered(at.namespace, []rbacv1.PolicyRule{{Verbs: rights, APIGroups: []string{at.group}, Resources: []string{at.spelled()}, ResourceNames: []string{u.Name}}}, nil) == nil
	}
	for at, all := range fields {
		for v := range all {
			out[at] = out[at] && !s.exclusive(v)
		}
		out[at] = out[at] && len(all) <= maxFields
	}
	return out
}

func (p place) spelled() string {
	if p.sub != "" {
		return p.resource + "/" + p.sub
	}
	return p.resource
}

// exclusive reports whether a permission is for fields that no general verb covers.
func (s *suggester) exclusive(verb string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(verb, fieldPrefix), "(")
	return s.Exclusive == nil || s.Exclusive(name)
}

// hasFields reports whether a use was allowed because of rights to single fields. The server asked for the rights to
// them, and found them, or nothing had changed: what their conditions say was so.
func (s *suggester) hasFields(u Use) bool {
	has := func(verb string) bool {
		return s.Index.Decide(u.with(verb).attributes(s.Who)).Certainty != ruleset.Never
	}
	return verbs.IsWrite(u.Verb) && has(fieldsVerb) && !slices.ContainsFunc(s.Checked[u], func(verb string) bool { return !has(verb) })
}

// noteFields notes the permissions for the fields that a use changed.
func (s *suggester) noteFields(u Use) {
	s.note(u.with(fieldsVerb), rulePlace{}, nil)
	for _, w := range s.Writes[u] {
		for _, v := range w.Verbs {
			s.note(u.with(v), rulePlace{}, nil)
		}
	}
}

// stillWrites reports whether a use can still make its recorded changes with rights to fields. A deny of the verb
// itself is final.
func (s *suggester) stillWrites(after *ruleset.Index, u Use) bool {
	who := without(s.Who, mastersGroup)
	v := after.Decide(u.attributes(who))
	if v.Deny.Found() || v.MayDeny {
		return false
	}
	has := func(verb string) bool { return after.Decide(u.with(verb).attributes(who)).Certainty == ruleset.Always }
	return has(fieldsVerb) && !slices.ContainsFunc(s.Writes[u], func(w Write) bool { return !w.Allowed(has) })
}

// covered proves with the check of escalation that rules grant nothing that is not held. A right to single fields that
// is not held itself stands for the verbs that allow as much and more.
func (s *suggester) covered(namespace string, rbac []rbacv1.PolicyRule, policy []policyv1alpha1.PolicyRule) error {
	grant := escalation.Grant{User: s.Who, Namespace: namespace}
	for _, r := range rbac {
		for _, resources := range apart(r.Verbs, r.Resources) {
			one := r
			one.Resources = resources
			one.Verbs = s.general(r.Verbs, resources, func(verb string) bool {
				asked := one
				asked.Verbs = []string{verb}
				return escalation.Covers(s.allows, escalation.Grant{User: s.Who, Namespace: namespace, RBAC: []rbacv1.PolicyRule{asked}}) == nil
			})
			grant.RBAC = append(grant.RBAC, one)
		}
	}
	if len(rbac) > 0 {
		if err := escalation.Covers(s.allows, grant); err != nil {
			return err
		}
	}
	if len(policy) == 0 {
		return nil
	}
	if namespace == "" {
		namespace = s.Index.MasterNamespace()
	}
	grant = escalation.Grant{User: s.Who, Namespace: namespace}
	for _, r := range policy {
		for _, kinds := range apart(r.Verbs, r.ResourceKinds) {
			one := r
			one.ResourceKinds = kinds
			one.Verbs = s.general(r.Verbs, kinds, func(verb string) bool {
				asked := one
				asked.Verbs = []string{verb}
				return escalation.Covers(s.allows, escalation.Grant{User: s.Who, Namespace: namespace, Policy: []policyv1alpha1.PolicyRule{asked}}) == nil
			})
			grant.Policy = append(grant.Policy, one)
		}
	}
	return escalation.Covers(s.allows, grant)
}

// apart are the resources of a rule one by one if it is about single fields, and otherwise all of them.
func apart(verbs, resources []string) (out [][]string) {
	if len(resources) == 0 || !slices.ContainsFunc(verbs, isField) {
		return [][]string{resources}
	}
	for _, r := range resources {
		out = append(out, []string{r})
	}
	return out
}

func isField(verb string) bool { return verb == fieldsVerb || strings.HasPrefix(verb, fieldPrefix) }

// general puts the verbs that allow as much instead of those of single fields that are not held themselves. Through a
// subresource nothing is created.
func (s *suggester) general(verbs, resources []string, held func(verb string) bool) (out []string) {
	for _, v := range verbs {
		switch {
		case !isField(v) || held(v) || v != fieldsVerb && s.exclusive(v):
			out = append(out, v)
		case strings.Contains(resources[0], "/"):
			out = append(out, "update", "patch")
		default:
			out = append(out, "create", "update", "patch")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
