package law

import (
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// atoms are about the request, the object or both; many of them fail for some objects, and some for all of them. OBJ is
// object, oldObject or resource.
var atoms = []string{
	`OBJ.spec.replicas > 2`,
	`OBJ.spec.replicas == 1`,
	`OBJ.metadata.labels["env"] == "dev"`,
	`has(OBJ.metadata.labels) && OBJ.metadata.labels["env"] != "bad"`,
	`OBJ.metadata.labels["team"] in request.groups`,
	`OBJ.metadata.labels[request.user] == "yes"`,
	`OBJ.spec.list.all(x, x != "bad")`,
	`OBJ.spec.list.exists(x, x == request.user)`,
	`OBJ.spec.list.exists_one(x, x.startsWith("go"))`,
	`OBJ.spec.missing == 1`,
	`OBJ.metadata.?labels[?"env"].orValue("none") == "dev"`,
	`OBJ.spec.nodeName == "n1"`,
	`size(OBJ.spec.list) < 2`,
	`OBJ.metadata.name == request.name`,
	`OBJ.metadata.name.startsWith("w")`,
	`OBJ == null`,
	`request.user == "alice"`,
	`request.user.startsWith("system:")`,
	`"team-a" in request.groups`,
	`request.groups.exists(g, g == "team-b")`,
	`request.namespace == "hammer"`,
	`request.verb == "delete"`,
	`1 / size(request.groups) > 0`,
	`request.extra["team"][0] == "blue"`,
	`true`, `false`,
}

// rawAtoms are those that only a when can be about.
var rawAtoms = []string{
	`operation == "CREATE"`,
	`operation in ["UPDATE", "DELETE"]`,
	`oldObject != null && object != null && oldObject.spec.replicas == object.spec.replicas`,
	`object == oldObject`,
	`options.fieldManager == request.user`,
	`namespaceObject.metadata.labels["tier"] == "prod"`,
	`namespaceObject == null`,
	`target == null`,
	`target != null && target.metadata.labels["env"] == "dev"`,
	`target.spec.replicas > 2`,
}

type dialect int

const (
	when dialect = iota
	where
)

// expression draws one of at most the given depth.
func expression(p refmodel.Pick, d dialect, depth int) string {
	if depth > 0 {
		switch p(7) {
		case 0, 1:
			return "(" + expression(p, d, depth-1) + " && " + expression(p, d, depth-1) + ")"
		case 2, 3:
			return "(" + expression(p, d, depth-1) + " || " + expression(p, d, depth-1) + ")"
		case 4:
			return "!(" + expression(p, d, depth-1) + ")"
		case 5:
			return "(" + expression(p, d, depth-1) + " ? " + expression(p, d, depth-1) + " : " + expression(p, d, depth-1) + ")"
		}
	}
	if d == where {
		return strings.ReplaceAll(atoms[p(len(atoms))], "OBJ", "resource")
	}
	if n := p(len(atoms) + len(rawAtoms)); n >= len(atoms) {
		return rawAtoms[n-len(atoms)]
	}
	return strings.ReplaceAll(atoms[p(len(atoms))], "OBJ", []string{"object", "object", "oldObject"}[p(3)])
}

// pool is the expressions of several worlds: compiling them is what costs.
type pool [2][]string

func drawPool(p refmodel.Pick) *pool {
	var out pool
	for d := range out {
		for range 24 {
			out[d] = append(out[d], expression(p, dialect(d), p(3)))
		}
	}
	return &out
}

func (e *pool) draw(p refmodel.Pick, d dialect) string { return e[d][p(len(e[d]))] }

// condition gives a rule conditions of every sort.
func (e *pool) condition(p refmodel.Pick, r *policyv1alpha1.PolicyRule) {
	r.When, r.Where = "", ""
	switch p(8) {
	case 0, 1:
		r.When = e.draw(p, when)
	case 2, 3:
		r.Where = e.draw(p, where)
	case 4:
		r.Where, r.When = e.draw(p, where), e.draw(p, when)
	case 5, 6:
		restriction(p, r)
		if p(4) == 0 {
			r.When = e.draw(p, when)
		}
	}
	if r.Where != "" && len(r.ResourceKinds) > 0 {
		switch p(6) { // CA-26: some rules name connections
		case 0:
			r.ResourceKinds = append(r.ResourceKinds, []string{"pods/exec", "Pod/attach", "*/exec"}[p(3)])
		case 1:
			r.Verbs = append(r.Verbs, "exec")
		}
	}
	if p(40) == 0 {
		r.When = refmodel.Broken
	}
	switch p(16) {
	case 0:
		r.APIVersion = "v9" // which nothing can be converted to
	case 1:
		r.APIVersion = "v1"
	}
}

func restriction(p refmodel.Pick, r *policyv1alpha1.PolicyRule) {
	a := &policyv1alpha1.AttributeRestrictions{}
	switch p(4) {
	case 0:
		a.FieldsMutable = []string{"labels"}
	case 1:
		a.FieldsMutable = []string{".spec.replicas", ".metadata.labels[env]"}
	case 2:
		a.LabelsContain = []string{"env=dev"}
	}
	if p(6) == 0 {
		a.LabelsContain = append(a.LabelsContain, "team")
	}
	if a.FieldsMutable == nil && a.LabelsContain == nil || p(4) == 0 {
		a.SameNodeRestriction = true
	}
	r.AttributeRestrictions = a
}
