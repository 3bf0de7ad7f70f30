package policychange

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// askingLines say what subjects may ask for after a change, and what they no longer may: nobody has it by the change
// itself, so it is not among the rights (TR-18).
func askingLines(before, after *offline.Host) (lines []string, err error) {
	rules, roles := [2]map[string]*accessv1alpha1.AccessRule{}, [2]map[string]any{}
	for i, h := range []*offline.Host{before, after} {
		rules[i], roles[i] = map[string]*accessv1alpha1.AccessRule{}, map[string]any{}
		objects, err := h.Files().Objects(snapshot.AccessRules)
		if err != nil {
			return nil, err
		}
		for _, r := range snapshot.Of[*accessv1alpha1.AccessRule](objects) {
			rules[i][r.Name], roles[i][r.Name] = r, contentOf(h, r.Spec.RoleRef)
		}
	}
	for name, r := range rules[0] {
		other, still := rules[1][name]
		role := access.RoleName(r.Spec.RoleRef)
		switch {
		case !still:
			lines = append(lines, fmt.Sprintf("AccessRule %s is gone: %s may no longer ask for %s by it, and what it granted ends", name, askers(r), role))
		case !equality.Semantic.DeepEqual(r.Spec, other.Spec):
			lines = append(lines, fmt.Sprintf("AccessRule %s changes: who may ask for %s by it may change, and so may where, for how long, and with whose approval", name, access.RoleName(other.Spec.RoleRef)))
		case !equality.Semantic.DeepEqual(roles[0][name], roles[1][name]):
			lines = append(lines, fmt.Sprintf("%s changes: %s may ask for it by AccessRule %s, and get other rights than before", role, askers(r), name))
		}
	}
	for name, r := range rules[1] {
		if _, was := rules[0][name]; !was {
			lines = append(lines, fmt.Sprintf("AccessRule %s is new: %s may ask for %s in %s", name, askers(r), access.RoleName(r.Spec.RoleRef), places(r)))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// contentOf returns the rules that a role has in effect; nil if it does not exist.
func contentOf(h *offline.Host, ref accessv1alpha1.AccessRoleRef) any {
	d := h.Snapshot().Rules.Definition(snapshot.RoleOf(ref))
	if d == nil {
		return nil
	}
	return []any{d.RBAC, d.Policy}
}

// bound leaves out roles that nobody is bound to, if users may ask for them: so they have an effect.
func bound(h *offline.Host, roles []plan.Written) ([]plan.Written, error) {
	rules, err := h.Files().Objects(snapshot.AccessRules)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(roles, func(w plan.Written) bool {
		gives := func(r *accessv1alpha1.AccessRule) bool { return snapshot.RoleOf(r.Spec.RoleRef) == w.Role }
		return len(h.Snapshot().Rules.BindingsOf(w.Role)) == 0 && slices.ContainsFunc(snapshot.Of[*accessv1alpha1.AccessRule](rules), gives)
	}), nil
}

// askers names those who may ask by a rule.
func askers(r *accessv1alpha1.AccessRule) string {
	names := slices.Clone(r.Spec.Subjects.UserNames)
	for _, g := range r.Spec.Subjects.GroupNames {
		names = append(names, "group "+g)
	}
	return strings.Join(names, ", ")
}

func places(r *accessv1alpha1.AccessRule) string {
	if r.Spec.NamespaceSelector != nil {
		return "the namespaces that it selects"
	}
	return "namespaces " + strings.Join(r.Spec.Namespaces, ", ")
}
