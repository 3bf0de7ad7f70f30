package ruleset

import (
	"cmp"
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// ruleKey is where the inverse index lists a role: under every resource that one of its rules names, together with the
// object's name if the rule is limited to names. The role's home excludes roles of other namespaces.
type ruleKey struct {
	kind RoleKind
	ns   string
	res  string // "*" for any resource, "/" for non-resource paths
	name string
}

// keyMask is one entry of a role in the inverse index before the role has a number.
type keyMask struct {
	res, name   string
	allow, deny matching.VerbBit
}

// keyEntry is one role in the inverse index, with the verbs that it could allow or deny there. It is a superset: the
// role itself is asked before it counts.
type keyEntry struct {
	role        uint32
	allow, deny matching.VerbBit
}

const (
	keyAnyResource = "*"
	keyURL         = "/"
)

// roleKeys computes where a role is listed.
func roleKeys(r *role) []keyMask {
	type at struct{ res, name string }
	masks := map[at]*keyMask{}
	note := func(res, name string, ru *matching.Rule) {
		m := masks[at{res, name}]
		if m == nil {
			m = &keyMask{res: res, name: name}
			masks[at{res, name}] = m
		}
		if ru.Deny {
			m.deny |= ru.Verbs.Bits()
		} else {
			m.allow |= ru.Verbs.Bits()
		}
	}
	resource := func(res string, ru *matching.Rule) {
		for _, name := range ru.Names {
			note(res, name, ru)
		}
		// A deny rule with names can also match a request without a name.
		if ru.Names == nil || ru.Deny {
			note(res, "", ru)
		}
	}
	for _, t := range []*matching.Table{&r.allow, &r.deny} {
		for i := range t.Cells {
			resource(t.Cells[i].Res, t.Cells[i].Rule)
		}
		for i := range t.Wild {
			resource(keyAnyResource, t.Wild[i].Rule)
		}
		for _, ru := range t.URLs {
			note(keyURL, "", ru)
		}
	}
	keys := make([]keyMask, 0, len(masks))
	for _, m := range masks {
		keys = append(keys, *m)
	}
	slices.SortFunc(keys, func(a, b keyMask) int { return cmp.Or(cmp.Compare(a.res, b.res), cmp.Compare(a.name, b.name)) })
	return keys
}

func (ix *Index) hashKey(k ruleKey) uint64 {
	return mix(mix(ix.hash(k.ns), uint64(k.kind)), mix(ix.hash(k.res), ix.hash(k.name)))
}

// candidates are the lists of the inverse index that hold every role of a home that could match the request.
type candidates [4]persist.Roster[keyEntry]

// candidates looks up the lists in which roles of the home that match the request must be. It must not be used for
// requests with wildcards.
func (q *Query) candidates(kind RoleKind, ns string) (c candidates) {
	get := func(res, name string) persist.Roster[keyEntry] {
		k := ruleKey{kind, ns, res, name}
		list, _ := q.ix.keys.Get(q.ix.hashKey(k), k)
		return list
	}
	if !q.req.ResourceRequest {
		c[0] = get(keyURL, "")
		return c
	}
	c[0], c[1] = get(q.req.Resource, ""), get(keyAnyResource, "")
	if q.req.Name != "" {
		c[2], c[3] = get(q.req.Resource, q.req.Name), get(keyAnyResource, q.req.Name)
	}
	return c
}

func (c *candidates) len() int {
	n := 0
	for i := range c {
		n += c[i].Len()
	}
	return n
}

// each visits the roles that could allow or deny the verb; one can come up more than once.
func (c *candidates) each(bit matching.VerbBit, visit func(id uint32)) {
	for i := range c {
		for run := range c[i].Runs() {
			for _, e := range c[i].Run(run) {
				if (e.allow|e.deny)&bit != 0 {
					visit(e.role)
				}
			}
		}
	}
}

func (e keyEntry) compare(o keyEntry) int { return cmp.Compare(e.role, o.role) }

// keyEdit collects what an Apply changes in the inverse index, so every list is changed once.
type keyEdit struct {
	remove, add map[ruleKey][]keyEntry
}

func (k *keyEdit) take(ref RoleRef, id uint32, keys []keyMask) {
	for _, m := range keys {
		key := ruleKey{ref.Kind, ref.Namespace, m.res, m.name}
		k.remove[key] = append(k.remove[key], keyEntry{role: id})
	}
}

func (k *keyEdit) put(ref RoleRef, id uint32, keys []keyMask) {
	for _, m := range keys {
		key := ruleKey{ref.Kind, ref.Namespace, m.res, m.name}
		k.add[key] = append(k.add[key], keyEntry{id, m.allow, m.deny})
	}
}

func (k *keyEdit) apply(e *edit) {
	e.next.keys.Reserve(e.owner, len(k.add))
	for key := range k.remove {
		if _, ok := k.add[key]; !ok {
			k.add[key] = nil
		}
	}
	for key, add := range k.add {
		h := e.next.hashKey(key)
		old, _ := e.next.keys.Get(h, key)
		remove := k.remove[key]
		slices.SortFunc(remove, keyEntry.compare)
		slices.SortFunc(add, keyEntry.compare)
		if next := old.Apply(remove, add, keyEntry.compare); !next.Empty() {
			e.next.keys.Set(e.owner, h, key, next)
		} else {
			e.next.keys.Remove(e.owner, h, key)
		}
	}
}
