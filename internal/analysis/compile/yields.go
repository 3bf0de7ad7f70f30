package compile

import (
	"fmt"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// celAsked is the name that a request was authorized for. Admission knows the name of a new object, and authorization
// did not: a right to one name does not include creating it.
const celAsked = `(request.operation == "CREATE" && ` + celSub + ` == "" ? "" : ` + celName + `)`

// may is true in CEL if the caller has a verb on what the request is about, in a namespace.
func may(verb, namespace string) string {
	return fmt.Sprintf("authorizer.group(%s).resource(%s).subresource(%s).namespace(%s).name(%s).check(%q).allowed()",
		celGroup, celPlural, celSub, namespace, celAsked, verb)
}

// everywhere is true in CEL if the caller has a verb on what the request is about in all namespaces.
func everywhere(verb string) string { return may(verb, `""`) }

// Keys of the operations of an eviction.
const (
	evictionKey = "/pods/" + matching.SubEviction + " CREATE"
	podKey      = "/pods/ DELETE"
)

// needs are the operations, with their verbs, that must all be allowed to lift a deny, or to be free of a condition,
// for an operation.
func needs(of *unit, keys map[string][]string, k string) map[string][]string {
	all := map[string][]string{k: keys[k]}
	single, collection := strings.CutSuffix(k, "COLLECTION")
	switch {
	case collection && of.src.Deny && keys[single] != nil: // a deny of deletes reaches each object of a collection
		all[single] = []string{verbs.Delete}
	case k == evictionKey && of.evicts:
		all[podKey] = []string{verbs.Delete}
	}
	return all
}

// covers reports whether a unit allows all that an operation of another one needs. A condition on a pod cannot be
// decided for its eviction, which has another body.
func (u *unit) covers(mine map[string][]string, of *unit, keys map[string][]string, k string) bool {
	if k == evictionKey && of.evicts && u.conditional() {
		return false
	}
	for key, needed := range needs(of, keys, k) {
		if slices.ContainsFunc(needed, func(v string) bool { return !slices.Contains(mine[key], v) }) {
			return false
		}
	}
	return true
}

// yields are the ways in which a deny in a namespace gives way: to rules of the master namespace that allow the
// request, and to other cluster-wide grants. Whether a subject that is held to a condition has another one cannot be
// told.
func (c *compiler) yields(u *unit) (pass ways) {
	for _, other := range c.others() {
		if way := other.allows(u); other.scope == "" && way != "" {
			pass.add(fmt.Sprintf("other%d", len(pass)), way)
		}
	}
	create := everywhere("create")
	if u.evicts {
		create += fmt.Sprintf(` && (%s != %q || authorizer.group("").resource("pods").name(%s).check("delete").allowed())`, celAt, "/pods/"+matching.SubEviction, celName)
	}
	pass.add("granted", c.free(u)+fmt.Sprintf(`(request.operation == "UPDATE" ? %s && %s : request.operation == "DELETE" ? (%s == "" ? %s && %s : %s) : request.operation == "CREATE" && %s)`,
		everywhere("update"), everywhere("patch"), celName, everywhere("deletecollection"), everywhere("delete"), everywhere("delete"), create))
	return pass
}

// free is the part of an expression that leaves out subjects that are held to a condition of the master namespace.
func (c *compiler) free(u *unit) string {
	var held []string
	for _, other := range c.others() {
		if other.scope == "" && other.conditional() && other.touches(u) {
			held = append(held, other.subjects())
		}
	}
	if len(held) == 0 {
		return ""
	}
	slices.Sort(held)
	return "!(" + strings.Join(slices.Compact(held), " || ") + ") && "
}

// connections are true together if a deny of connections gives way to other cluster-wide grants. Admission does not
// tell the verb of a connection, so all verbs that are denied must be granted. A server evaluates few checks in one
// expression, so each verb has its own.
func (c *compiler) connections(u *unit) (all ways) {
	var denied []string
	for _, r := range u.at {
		if r.connects() {
			denied = append(denied, r.verbs...)
		}
	}
	slices.Sort(denied)
	for i, verb := range slices.Compact(denied) {
		all.add(fmt.Sprintf("connects%d", i), c.free(u)+`request.operation == "CONNECT" && `+everywhere(verb))
	}
	return all
}

// together is true in CEL if all of them hold; nothing if there are none.
func (w ways) together() []string {
	if len(w) == 0 {
		return nil
	}
	var all []string
	for _, v := range w {
		all = append(all, "variables."+v.Name)
	}
	return []string{"(" + strings.Join(all, " && ") + ")"}
}
