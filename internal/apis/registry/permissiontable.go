package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// shownInCell bounds how many fields or resources a cell lists; the rest is counted.
const shownInCell = 3

// permissionColumns are what `kubectl get permissions` shows.
func permissionColumns() []column[*authz.Permission] {
	return []column[*authz.Permission]{
		{name: "Verbs", description: "What a role has to grant on the resource.", cell: func(p *authz.Permission) any {
			verbs := make([]string, len(p.Verbs))
			for i, verb := range p.Verbs {
				verbs[i] = verb + brokenMark(p, verb)
			}
			return strings.Join(verbs, ",")
		}},
		{name: "Fields", description: "The fields that the permission guards.",
			cell: func(p *authz.Permission) any {
				return someOf(p, func(f authz.PermissionField) string { return f.Field })
			}},
		{name: "Resources", description: "The resources that have the fields.",
			cell: func(p *authz.Permission) any {
				return someOf(p, func(f authz.PermissionField) string { return f.Resource })
			}},
		{name: "Exclusive", description: "Whether the general right to write the object leaves the fields out: true, false, or partly for some fields or values.",
			cell: func(p *authz.Permission) any { return exclusiveCell(p) }},
		{name: "Source", wide: true, description: "What declares the permission.",
			cell: func(p *authz.Permission) any {
				return someOf(p, func(f authz.PermissionField) string { return f.Source })
			}},
	}
}

// brokenMark says that a declaration of the verb does not compile.
func brokenMark(p *authz.Permission, verb string) string {
	if slices.ContainsFunc(p.Fields, func(f authz.PermissionField) bool { return f.Verb == verb && f.Broken }) {
		return " <broken>"
	}
	return ""
}

// someOf lists the shortest different values: a pod's own field rather than that of a template.
func someOf(p *authz.Permission, value func(authz.PermissionField) string) string {
	var all []string
	for _, f := range p.Fields {
		if v := value(f); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(all) <= shownInCell {
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s,+%d more", strings.Join(all[:shownInCell], ","), len(all)-shownInCell)
}

func exclusiveCell(p *authz.Permission) string {
	always, never := true, true
	for _, f := range p.Fields {
		never = never && !f.Exclusive
		always = always && f.Exclusive && f.ExclusiveWhen == ""
	}
	switch {
	case never:
		return "false"
	case always:
		return "true"
	}
	return "partly"
}
