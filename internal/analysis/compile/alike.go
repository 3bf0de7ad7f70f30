package compile

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/verbs"
)

// alike are resources to which the same applies: those that nothing particular is known of, or some that are listed.
type alike struct {
	// example is one of them.
	example *plan.Resource
	// rules are their constraints, and where is true in CEL for requests about them.
	rules []admissionv1.NamedRuleWithOperations
	where string
	// listed is true if they are listed, and known are the ones that are served.
	listed bool
	known  []reach
}

// celAt names the resource or subresource of a request.
const celAt = celGroup + ` + "/" + ` + celPlural + ` + (` + celSub + ` == "" ? "" : "/" + ` + celSub + `)`

// alike puts all resources whose objects are written together by what applies to them, as a text that is empty if
// nothing does. What is not known to be served is like a resource that nobody has heard of.
func (c *compiler) alike(text func(*plan.Resource) string) (all []alike) {
	unknown := &plan.Resource{Group: "unknown.compile.proviso.dev", Resource: "unknown"}
	usual := text(unknown)
	var special []string
	var texts []string
	var others []reach
	var found [][]reach
	for i := range c.in.Resources {
		r := reach{Resource: &c.in.Resources[i], verbs: []string{verbs.Create, verbs.Update}}
		if r.connects() || r.Virtual || c.unadmitted(r) {
			continue
		}
		one := text(r.Resource)
		if one == usual {
			others = append(others, r)
			continue
		}
		if special = append(special, r.Group+"/"+r.name()); one == "" {
			continue
		}
		k := slices.Index(texts, one)
		if k < 0 {
			k, texts, found = len(texts), append(texts, one), append(found, nil)
		}
		found[k] = append(found[k], r)
	}
	if usual != "" {
		where := "true"
		if len(special) > 0 {
			where = "!(" + celAt + " in " + celList(special) + ")"
		}
		everything := constraint("*", "*", []string{"CREATE", "UPDATE"}, []string{"*/*"})
		all = append(all, alike{example: unknown, rules: []admissionv1.NamedRuleWithOperations{everything}, where: where, known: others})
	}
	for _, at := range found {
		var names []string
		for _, r := range at {
			names = append(names, r.Group+"/"+r.name())
		}
		all = append(all, alike{example: at[0].Resource, rules: constraints(&unit{at: at}), where: celAt + " in " + celList(names), listed: true, known: at})
	}
	return all
}
