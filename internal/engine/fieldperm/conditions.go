package fieldperm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"proviso.dev/proviso/internal/engine/protectedattr"
)

// Conditions lists the exclusive fields that stand between a caller with the general verb and a write of the target, as
// Deny conditions for an access review (PA-8). Fields whose permission the caller holds are left out. An expression
// holds at least for every write that Decide would refuse; where a path goes through every entry of a map or list, it
// is about the whole map or list. check may be nil.
func (t *Table) Conditions(target Target, check func(verb string) (bool, error)) []protectedattr.Condition {
	tree := t.tree(target)
	if !tree.exclusive {
		return nil
	}
	plan := plan{check: check}
	var all []protectedattr.Condition
	for _, p := range tree.exclusives(nil) {
		if v, known := p.knownVerb(); known && !p.perm.broken && plan.holds(v) {
			continue
		}
		all = append(all, protectedattr.Condition{
			ID:          "field-" + p.path.String(),
			Description: p.describe(target.Resource),
			Expression:  p.expression(),
		})
	}
	return protectedattr.Group(all)
}

// exclusives lists the exclusive permissions of a tree with their places, in order.
func (n *node) exclusives(at Path) []placed {
	var all []placed
	for _, p := range n.perms {
		if p.Exclusive {
			all = append(all, placed{at, p})
		}
	}
	for name, child := range n.fields {
		all = append(all, child.exclusives(Path{Field(name)}.under(at))...)
	}
	for name, child := range n.keys {
		all = append(all, child.exclusives(Path{Key(name)}.under(at))...)
	}
	if n.any != nil {
		all = append(all, n.any.exclusives(Path{Any()}.under(at))...)
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(a.path.compare(b.path), moreGeneral(a.perm, b.perm))
	})
	return all
}

// knownVerb is the verb of the permission if it does not depend on the object.
func (p placed) knownVerb() (string, bool) {
	if p.perm.Parameter == nil {
		return verb(p.perm.Permission, "", false), true
	}
	last := p.path[len(p.path)-1]
	if p.perm.Parameter.From == FromKey && last.Bracket && !last.Any {
		return verb(p.perm.Permission, p.perm.treat(last.Name), true), true
	}
	return "", false
}

func (p placed) describe(r Resource) string {
	text := fmt.Sprintf("field %s of %s may only be changed with %s, by %s", p.path, r, p.perm.display(), p.perm.Source)
	if p.perm.ExclusiveWhen != "" {
		text += ", when " + p.perm.ExclusiveWhen
	}
	return text
}

// expression compares the field in object and oldObject.
func (p placed) expression() string {
	path, exact, entries := "", true, false
	for i, e := range p.path {
		if e.Any {
			exact, entries = false, i == len(p.path)-1
			break
		}
		if e.Bracket {
			path += "[?" + strconv.Quote(e.Name) + "]"
		} else {
			path += ".?" + e.Name
		}
	}
	changed := fmt.Sprintf("[[optional.ofNonZeroValue(object)%s, optional.ofNonZeroValue(oldObject)%s]].exists(p, p[0] != p[1]", path, path)
	if exact && p.perm.when != nil && p.perm.pick == "" {
		// Each macro binds a name that the text of the declaration uses.
		changed += fmt.Sprintf(" && [%s].exists(key, [p[0].orValue(dyn(null))].exists(self, [p[1].orValue(dyn(null))].exists(oldSelf, (%s))))",
			strconv.Quote(p.lastKey()), p.perm.ExclusiveWhen)
	}
	if entries && p.perm.onlyGuards {
		changed += " && [[p[0].orValue(dyn({})), p[1].orValue(dyn({}))]].exists(m, m.exists(side, side.exists(key, m[0][?key] != m[1][?key] && " + p.perm.ExclusiveWhen + ")))"
	}
	if text := changed + ")"; len(text) <= protectedattr.MaxExpression {
		return text
	}
	return "true"
}

func (p placed) lastKey() string {
	for _, e := range slices.Backward(p.path) {
		if e.Bracket {
			return e.Name
		}
	}
	return ""
}
