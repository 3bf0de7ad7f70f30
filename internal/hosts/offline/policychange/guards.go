package policychange

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// unknown says what guards do beside the rules: field permissions and protected attributes that appear, go or become
// others, and who belongs to the roles that they except. Whose writes that allows or refuses depends on the fields and
// labels that they set, so nobody is named except members, and readers from whom a field is hidden.
func unknown(ctx context.Context, before, after *offline.Host) (lines []string, err error) {
	fields := [2][]fieldperm.Entry{}
	protections := [2]map[string]offline.Protection{}
	for i, h := range []*offline.Host{before, after} {
		if table := h.Snapshot().Fields; table != nil {
			fields[i] = table.Permissions()
		}
		if protections[i], err = h.Protections(); err != nil {
			return nil, err
		}
	}
	for i, verb := range []string{"no longer guards", "guards"} {
		for _, e := range fields[i] {
			if !slices.Contains(fields[1-i], e) {
				lines = append(lines, fieldLine(e, verb))
			}
		}
	}
	lines = append(lines, sightLines(ctx, before, after)...)
	roles := map[ruleset.RoleRef][]string{}
	for i, all := range protections {
		for name, p := range all {
			other, there := protections[1-i][name]
			switch {
			case !there && i == 0:
				lines = append(lines, fmt.Sprintf("%s is gone: every writer may set what it protected", name))
			case !there:
				lines = append(lines, fmt.Sprintf("%s is new: only members of %s may set what it protects", name, p.Role))
			case i == 1 && !reflect.DeepEqual(p.Said, other.Said):
				lines = append(lines, name+" changes: who may set what it protects may change")
			}
			if !slices.Contains(roles[p.Role], name) {
				roles[p.Role] = append(roles[p.Role], name)
			}
		}
	}
	for role, names := range roles {
		slices.Sort(names)
		lines = append(lines, memberLines(before, after, role, strings.Join(names, ", "))...)
	}
	slices.Sort(lines)
	return lines, nil
}

// fieldLine says what a field permission means to people who write the resource.
func fieldLine(e fieldperm.Entry, verb string) string {
	resource := e.Resource
	if resource == "*" {
		resource = "all resources"
	}
	text := fmt.Sprintf("%s %s %s of %s", e.Source, verb, e.Field, resource)
	switch {
	case !e.Exclusive:
		return text + ": who has " + e.Verb + " may change other fields than before"
	case verb == "guards":
		return text + ": writers without " + e.Verb + " may not change it"
	}
	return text + ": every writer may change it"
}

// memberLines say who becomes a member of a role, and who no longer is one.
func memberLines(before, after *offline.Host, role ruleset.RoleRef, protects string) (lines []string) {
	sides := [2]map[string]bool{members(before, role), members(after, role)}
	for i, verb := range []string{"is no longer", "becomes"} {
		for who := range sides[i] {
			if !sides[1-i][who] {
				may := "may set"
				if i == 0 {
					may = "may no longer set"
				}
				lines = append(lines, fmt.Sprintf("%s %s a member of %s, and %s what is protected by %s", who, verb, role, may, protects))
			}
		}
	}
	return lines
}

// members are those who are bound to a role that exists, with the place.
func members(h *offline.Host, role ruleset.RoleRef) map[string]bool {
	all := map[string]bool{}
	if !exists(h, role) {
		return all // nobody is a member of a role that is not there
	}
	h.Snapshot().Rules.Members(role, func(namespace string, everywhere bool, s ruleset.Subject) {
		who := offline.SubjectOf(s).String()
		if !everywhere {
			who += " (in " + namespace + ")"
		}
		all[who] = true
	})
	return all
}

func exists(h *offline.Host, role ruleset.RoleRef) bool {
	switch role.Kind {
	case ruleset.PolicyRole:
		return h.Snapshot().Rules.Definition(role) != nil // the default roles are in no file
	case ruleset.ClusterRole:
		objects, err := h.Files().Objects(snapshot.ClusterRoles)
		return err == nil && slices.ContainsFunc(snapshot.Of[*rbacv1.ClusterRole](objects), func(r *rbacv1.ClusterRole) bool { return r.Name == role.Name })
	}
	objects, err := h.Files().Objects(snapshot.Roles)
	return err == nil && slices.ContainsFunc(snapshot.Of[*rbacv1.Role](objects), func(r *rbacv1.Role) bool { return r.Namespace == role.Namespace && r.Name == role.Name })
}
