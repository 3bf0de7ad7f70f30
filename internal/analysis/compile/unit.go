package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// masters is the group that every server allows everything.
const masters = "system:masters"

// bound is a role where it is bound, with all that it is bound to there.
type bound struct {
	role ruleset.RoleRef
	// scope is a namespace, or empty for the whole cluster.
	scope         string
	users, groups []string
}

// unit is one rule of a role where it is bound.
type unit struct {
	*bound
	index int
	src   *policyv1alpha1.PolicyRule
	rule  *matching.Rule
	said  *Assessment
	// at is what is compiled of the rule, and condition what it depends on; empty if on nothing.
	at        []reach
	condition string
	// evicts is true if a deny of deletes refuses evictions of pods.
	evicts bool
	// whole is the unit that this one is a piece of; nil if it is whole.
	whole *unit
}

// same reports whether two units are of one rule in one place.
func (u *unit) same(o *unit) bool {
	a, b := u, o
	if a.whole != nil {
		a = a.whole
	}
	if b.whole != nil {
		b = b.whole
	}
	return a == b
}

// ruleName returns the name of a rule, for people and for --accept.
func ruleName(role ruleset.RoleRef, index int) string {
	return fmt.Sprintf("%s/%s/%d", role.Namespace, role.Name, index)
}

// merge puts the bindings of one role in one scope together.
func (b *bound) merge(users, groups []string) {
	b.users, b.groups = append(b.users, users...), append(b.groups, groups...)
	for _, list := range []*[]string{&b.users, &b.groups} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

func compareBound(a, b *bound) int {
	return cmp.Or(strings.Compare(a.scope, b.scope), strings.Compare(a.role.Namespace, b.role.Namespace), strings.Compare(a.role.Name, b.role.Name))
}

// subjects is true in CEL for those that the role is bound to.
func (b *bound) subjects() string {
	var parts []string
	if len(b.users) > 0 {
		parts = append(parts, celUser+" in "+celList(b.users))
	}
	if len(b.groups) > 0 {
		parts = append(parts, celGroups+".exists(g, g in "+celList(b.groups)+")")
	}
	if len(parts) == 0 {
		return "false"
	}
	return "(" + strings.Join(parts, " || ") + ")"
}

// place is true in CEL where the role is bound. A request about a namespace is in it, unless it creates it.
func (u *unit) place() string {
	if u.scope == "" {
		return "true"
	}
	in := fmt.Sprintf("%s == %q", celPlace, u.scope)
	if slices.ContainsFunc(u.at, func(r reach) bool { return r.Group == "" && r.Resource.Resource == "namespaces" }) {
		in = fmt.Sprintf(`(%s || %s == "" && %s == "namespaces" && request.operation != "CREATE" && %s == %q)`, in, celGroup, celPlural, celName, u.scope)
	}
	return in
}

// conditional reports whether the rule depends on the object.
func (u *unit) conditional() bool { return u.condition != "" }

// holds is true in CEL if the condition is met, by an object in the version that it is written for. Admission
// policies see objects in the version of the request: in another one, nothing is known.
func (u *unit) holds() string { return "(" + u.versioned() + " && (" + u.condition + "))" }

// versioned is true in CEL for requests in the versions that the condition is written for.
func (u *unit) versioned() string {
	var all []string
	for _, r := range u.at {
		all = append(all, r.Group+"/"+r.Resource.Resource+" "+cmp.Or(u.src.APIVersion, r.Version))
	}
	return celGroup + ` + "/" + ` + celPlural + ` + " " + request.requestResource.version in ` + celList(all)
}

// operation is what admission calls a verb. A deletecollection is told from a delete by its having no name.
func operation(r reach, verb string) string {
	switch {
	case r.connects():
		return "CONNECT"
	case verb == verbs.Create:
		return "CREATE"
	case verbs.Updates(verb):
		return "UPDATE"
	case verb == verbs.Delete:
		return "DELETE"
	case verb == verbs.DeleteCollection:
		return "DELETECOLLECTION"
	}
	return ""
}

// key names one operation on one resource.
func key(r reach, op string) string {
	return r.Group + "/" + r.Resource.Resource + "/" + r.Subresource + " " + op
}

// celKey is the key of a request in CEL.
const celKey = `(` + celGroup + ` + "/" + ` + celPlural + ` + "/" + ` + celSub + ` + " " + (request.operation == "DELETE" && ` + celName +
	` == "" ? "DELETECOLLECTION" : request.operation))`

// keys are the operations of a unit, each with its verbs.
func (u *unit) keys() map[string][]string {
	all := map[string][]string{}
	for _, r := range u.at {
		for _, v := range r.verbs {
			if op := operation(r, v); op != "" {
				all[key(r, op)] = append(all[key(r, op)], v)
			}
		}
	}
	return all
}

// overlaps reports whether two units can be about one request, as far as their scopes go.
func (u *unit) overlaps(o *unit) bool { return u.scope == "" || o.scope == "" || u.scope == o.scope }

// touches reports whether two units have an operation in common.
func (u *unit) touches(o *unit) bool {
	theirs := o.keys()
	for k := range u.keys() {
		if theirs[k] != nil {
			return true
		}
	}
	return false
}

// allows is true in CEL for requests of the unit that this one allows, too; empty if it allows none of them for
// certain.
func (u *unit) allows(of *unit) string {
	if !u.overlaps(of) || u.same(of) {
		return ""
	}
	mine, theirs, shared := u.keys(), of.keys(), []string{}
	for k := range theirs {
		if u.covers(mine, of, theirs, k) {
			shared = append(shared, k)
		}
	}
	if len(shared) == 0 {
		return ""
	}
	parts := []string{u.subjects()}
	if of.src.Deny || len(shared) < len(theirs) { // a deny may also be about what is not served yet
		parts = append(parts, celKey+" in "+celList(shared))
	}
	if u.scope != "" && u.scope != of.scope {
		parts = append(parts, u.place())
	}
	if len(u.rule.Names) > 0 {
		parts = append(parts, named(u.rule.Names))
	}
	if u.conditional() {
		parts = append(parts, u.holds())
	}
	return "(" + strings.Join(parts, " && ") + ")"
}

// named is true in CEL for requests that a rule with names allows: those that say one of them.
func named(names []string) string {
	return `(` + celName + ` in ` + celList(names) + ` && (request.operation != "CREATE" || ` + celSub + ` != ""))`
}
