package ruleset

import (
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// edit is an Apply in progress. It first collects the net effect of the changes, so every structure is touched once,
// however many changes arrive together. Building an index is a large edit of an empty one.
type edit struct {
	base     *Index
	next     *Index
	owner    *persist.Owner
	compiler compiler

	roles    map[RoleRef]*roleSource // nil is deleted
	bindings map[BindingRef]*binding // nil is deleted
	timed    map[BindingRef]*timed   // bindings that begin or end; nil is none
	kinds    *matching.Kinds
	kindsSet bool
	rechecks []recheck

	doubted map[string]bool // namespaces whose policy was not readable before, or is not now
	touched map[uint32]bool // roles whose number may have become free, or whose existence changed
}

// roleSource is the source of a role; one of the two is set.
type roleSource struct {
	policy []policyv1alpha1.PolicyRule
	rbac   []rbacv1.PolicyRule
	over   error // a limit that the conditions of the namespace exceed
}

// Apply returns the index after the changes. The receiver stays valid and unchanged; the two share all that is
// unchanged.
func (ix *Index) Apply(changes ...Change) *Index {
	e := ix.edit()
	for _, c := range changes {
		e.note(c)
	}
	return e.done()
}

// edit begins an edit of the index.
func (ix *Index) edit() *edit {
	next := *ix
	return &edit{base: ix, next: &next, owner: new(persist.Owner), roles: map[RoleRef]*roleSource{}, bindings: map[BindingRef]*binding{},
		timed: map[BindingRef]*timed{}, doubted: map[string]bool{}, touched: map[uint32]bool{}}
}

// done executes the edit.
func (e *edit) done() *Index {
	ix := e.base
	e.time()
	e.absent()
	e.twins()
	if e.kindsSet {
		e.next.kinds = e.kinds
	}
	e.compiler = compiler{seed: ix.seed, kinds: e.next.kinds, rule: ix.compile, limits: ix.limits, future: ix.future, skip: ix.skip, part: ix.part}
	if len(e.roles) >= manyRoles {
		e.compiler.alike = alikeRules{}
	}
	e.next.ids.Reserve(e.owner, len(e.roles))
	e.next.bindings.Reserve(e.owner, len(e.bindings))
	e.next.subjects.Reserve(e.owner, len(e.bindings))
	e.applyRoles()
	e.applyBindings()
	e.settle()
	e.settleTime()
	return e.next
}

// id returns the number of a role, and assigns one if it has none.
func (e *edit) id(ref RoleRef) uint32 {
	h := e.next.hashRole(ref)
	id, ok := e.next.ids.Get(h, ref)
	if !ok {
		id = e.next.slots.Alloc(e.owner, &ref)
		e.next.ids.Set(e.owner, h, ref, id)
	}
	e.touched[id] = true
	return id
}

// applyRoles compiles the roles that changed and updates their entries in the inverse index.
func (e *edit) applyRoles() {
	refs := make([]RoleRef, 0, len(e.roles))
	for ref := range e.roles {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, RoleRef.compare) // numbers are assigned in the order of names, so equal inputs give equal reasons
	keys := keyEdit{remove: map[ruleKey][]keyEntry{}, add: map[ruleKey][]keyEntry{}}
	for _, ref := range refs {
		e.applyRole(ref, e.roles[ref], &keys)
	}
	if e.kindsSet || len(e.rechecks) > 0 {
		e.recompile(&keys)
	}
	keys.apply(e)
}

func (e *edit) applyRole(ref RoleRef, src *roleSource, keys *keyEdit) {
	h := e.next.hashRole(ref)
	var old *role
	if id, ok := e.next.ids.Get(h, ref); ok {
		old = e.next.slots.Get(id)
	}
	switch {
	case src == nil && old == nil:
		return
	case src == nil:
		e.replaceRole(ref, old, nil, keys)
	case old != nil && sameRules(old, src):
		return
	case ref.Kind == PolicyRole:
		e.replaceRole(ref, old, e.compiler.policyRole(ref, src, old), keys)
	default:
		e.replaceRole(ref, old, e.compiler.rbacRole(ref, src.rbac), keys)
	}
}

func sameRules(old *role, src *roleSource) bool {
	if old.Ref.Kind == PolicyRole {
		return sameError(old.over, src.over) && len(old.Policy) == len(src.policy) && (len(old.Policy) == 0 || reflect.DeepEqual(old.Policy, src.policy))
	}
	return len(old.RBAC) == len(src.rbac) && (len(old.RBAC) == 0 || reflect.DeepEqual(old.RBAC, src.rbac))
}

func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// recompile recompiles the roles whose names of kinds have changed their meaning, or that have to be checked again.
func (e *edit) recompile(keys *keyEdit) {
	var changed map[string]bool
	var all bool
	if e.kindsSet {
		changed, all = e.base.kinds.Changed(e.next.kinds)
	}
	if len(changed) == 0 && !all && len(e.rechecks) == 0 {
		return
	}
	checked := func(r *role) bool {
		return slices.ContainsFunc(e.rechecks, func(concerned recheck) bool {
			return slices.ContainsFunc(r.Policy, func(rule policyv1alpha1.PolicyRule) bool { return concerned(&rule) })
		})
	}
	var stale, again []*role
	e.next.ids.Each(func(ref RoleRef, id uint32) bool {
		r := e.next.slots.Get(id)
		switch {
		case ref.Kind != PolicyRole || r == nil || r != e.base.role(ref):
		case checked(r):
			again = append(again, r)
		case all && len(r.names) > 0, slices.ContainsFunc(r.names, func(n string) bool { return changed[n] }):
			stale = append(stale, r)
		}
		return true
	})
	for _, list := range [][]*role{stale, again} {
		slices.SortFunc(list, func(a, b *role) int { return a.Ref.compare(b.Ref) })
	}
	for _, r := range stale {
		e.replaceRole(r.Ref, r, e.compiler.policyRole(r.Ref, &roleSource{policy: r.Policy, over: r.over}, r), keys)
	}
	for _, r := range again {
		e.replaceRole(r.Ref, r, e.compiler.policyRole(r.Ref, &roleSource{policy: r.Policy, over: r.over}, nil), keys)
	}
}

func (e *edit) replaceRole(ref RoleRef, old, next *role, keys *keyEdit) {
	id := e.id(ref)
	e.next.slots.Set(e.owner, id, next)
	if old != nil && old.asksTime {
		e.next.asking--
	}
	if next != nil && next.asksTime {
		e.next.asking++
	}
	if old != nil {
		keys.take(ref, id, roleKeys(old))
	}
	if next != nil {
		keys.put(ref, id, roleKeys(next))
	}
	h := e.next.hashRole(ref)
	if next != nil && len(next.problems) > 0 {
		e.next.troubled.Set(e.owner, h, ref, struct{}{})
	} else {
		e.next.troubled.Remove(e.owner, h, ref)
	}
}

// settle releases the numbers of roles that neither exist nor are referred to, and counts those that are missing.
func (e *edit) settle() {
	ids := make([]uint32, 0, len(e.touched))
	for id := range e.touched {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if e.base.slots.Missing(id) {
			e.next.missing--
		}
		if e.next.slots.Missing(id) {
			e.next.missing++
		}
		if ref := e.next.slots.Key(id); e.next.slots.Refs(id) == 0 && e.next.slots.Get(id) == nil && ref != nil {
			e.next.ids.Remove(e.owner, e.next.hashRole(*ref), *ref)
			e.next.slots.Release(e.owner, id)
		}
	}
}
