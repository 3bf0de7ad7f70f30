package offline

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/questions"
)

// Everything is what a server can be asked about: what it serves, and what only authorization knows.
func (u *Universe) Everything() []plan.Resource { return slices.Concat(u.Resources, u.Virtual) }

// knows reports whether a resource is among those that are asked about.
func (u *Universe) knows(r plan.Resource) bool {
	same := func(o plan.Resource) bool {
		return o.Group == r.Group && o.Resource == r.Resource && o.Subresource == r.Subresource
	}
	return slices.ContainsFunc(u.Resources, same) || slices.ContainsFunc(u.Virtual, same)
}

// resources notes what a rule of RBAC names.
func (u *Universe) resources(rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			u.named[schema.GroupResource{Group: group, Resource: resource}] = true
		}
	}
}

// kinds notes the subresources that a rule of Policy names. Their resources are looked up later, when it is known what
// is served.
func (u *Universe) kinds(kinds []string) {
	for _, kind := range kinds {
		if strings.Contains(kind, "/") {
			u.named[schema.GroupResource{Group: aKind, Resource: strings.TrimPrefix(kind, "-")}] = true
		}
	}
}

// aKind stands in for the group of what Policy names.
const aKind = "(kind)"

// imagine adds what is not served: what every server asks about, and what rules name, since other components may ask.
func (u *Universe) imagine(h *Host) {
	add := func(r plan.Resource) {
		r.Virtual = true
		if !u.knows(r) {
			u.Virtual = append(u.Virtual, r)
		}
	}
	for _, v := range questions.Virtual() {
		add(plan.Resource{Group: v.Group, Version: "v1", Resource: v.Resource, Verbs: v.Verbs})
	}
	served := h.Snapshot().Served
	for _, name := range sortedNames(u.named) {
		main, sub, _ := strings.Cut(name.Resource, "/")
		var of []schema.GroupResource
		switch {
		case name.Resource == "*" && !u.serves(name.Group):
			of = []schema.GroupResource{name} // whatever will be served there
		case main == "*" && sub == "" || sub == "*":
			continue // it names nothing by itself
		case main == "*":
			of = served.Kinds().Resources()
		case name.Group == aKind:
			of = served.Kinds().Resolve(main)
		case name.Group == "*":
			of = []schema.GroupResource{{Resource: main}}
		default:
			of = []schema.GroupResource{{Group: name.Group, Resource: main}}
		}
		for _, gr := range of {
			add(u.like(gr, sub))
		}
	}
}

// serves reports whether something is served in a group, or asked about; everything is in "*".
func (u *Universe) serves(group string) bool {
	of := func(r plan.Resource) bool { return group == "*" || r.Group == group }
	return slices.ContainsFunc(u.Resources, of) || slices.ContainsFunc(u.Virtual, of)
}

// like is a resource that rules name: a subresource is in a namespace as its resource is. What is asked about it is not
// known, and can be every verb.
func (u *Universe) like(gr schema.GroupResource, sub string) plan.Resource {
	r := plan.Resource{Group: gr.Group, Version: "v1", Resource: gr.Resource, Subresource: sub, Namespaced: true, Verbs: u.Verbs}
	for _, known := range slices.Concat(u.Resources, u.Virtual) {
		if known.Group == r.Group && known.Resource == r.Resource && known.Subresource == "" {
			r.Version, r.Namespaced = known.Version, known.Namespaced
			if known.Virtual {
				r.Verbs = known.Verbs
			}
		}
	}
	return r
}

func sortedNames(named map[schema.GroupResource]bool) (all []schema.GroupResource) {
	for gr := range named {
		all = append(all, gr)
	}
	slices.SortFunc(all, func(a, b schema.GroupResource) int {
		return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource)
	})
	return all
}
