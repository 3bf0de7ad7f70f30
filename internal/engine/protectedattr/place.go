package protectedattr

import (
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// place is where an object has an attribute: in its own metadata, or in what it carries for other objects.
type place struct {
	template bool
	// of is the resource whose metadata it is, and copies are the resources whose metadata it becomes. A pod template
	// counts as pods (PA-15).
	of     groupResource
	copies []groupResource
}

// placeOf is a place in the body of a request; without a site it is the object's own metadata.
func placeOf(req *Request, s *site) place {
	of := groupResource{req.Group, req.Resource}
	if s == nil {
		return place{of: of, copies: copied[of]}
	}
	return place{template: true, of: s.makes[0], copies: s.makes[1:]}
}

// copied are the resources to which controllers copy the metadata of another one. These controllers are exempt, so a
// protection that is limited to the copies has to apply at the source.
var copied = map[groupResource][]groupResource{
	{"", "bindings"}:         {pods},
	{"", "services"}:         {{"", "endpoints"}, endpointSlices},
	{"", "endpoints"}:        {endpointSlices},
	{"apps", "deployments"}:  {replicaSets},
	{"apps", "daemonsets"}:   {revisions},
	{"apps", "statefulsets"}: {revisions},
}

// Resources that controllers create.
var (
	pods           = groupResource{"", "pods"}
	claims         = groupResource{"", "persistentvolumeclaims"}
	replicaSets    = groupResource{"apps", "replicasets"}
	jobs           = groupResource{"batch", "jobs"}
	resourceClaims = groupResource{"resource.k8s.io", "resourceclaims"}
	endpointSlices = groupResource{"discovery.k8s.io", "endpointslices"}
)

// applies reports whether the protection applies to a place.
func (p *protection) applies(at place, req *Request) bool {
	if at.template && !p.templates {
		return false
	}
	return len(p.resources) == 0 || req.among(p.resources, at.of) ||
		slices.ContainsFunc(at.copies, func(r groupResource) bool { return req.among(p.resources, r) })
}

// among reports whether a resource is one of those that a protection names, read as in a deny rule: a name without a
// group means every resource with that plural or kind. A question about all resources includes these. If it is not
// known what is served, every resource may be meant.
func (r *Request) among(named []matching.Pattern, gr groupResource) bool {
	if r.Kinds == nil || gr.group == "*" || gr.resource == "*" {
		return true
	}
	for _, name := range named {
		patterns, _ := r.Kinds.Expand(name, false, false)
		for _, p := range patterns {
			if (p.AnyRes || p.Res == gr.resource) && p.InGroup(gr.group) {
				return true
			}
		}
	}
	return false
}

// parsed reads the resources of a protection. One that cannot be parsed may mean any resource.
func parsed(names []string) (all []matching.Pattern) {
	for _, name := range names {
		p, err := matching.ParseKind(name)
		if err != nil {
			return nil
		}
		all = append(all, p)
	}
	return all
}
