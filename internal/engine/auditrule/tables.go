package auditrule

import (
	"slices"
)

// subjectTable gives the clauses that accept a user with groups. A rule wants one of its users or one of its groups, so
// the rows of the user and of all groups are united. A rule that wants both is found by its users, and looked at again.
type subjectTable struct {
	anybody       row
	users, groups table
}

func (ix *Index) buildSubject() {
	users, groups := ix.newTable(), ix.newTable()
	anybody := make(row, ix.words)
	for i, p := range ix.predicates {
		if len(p.users) == 0 && len(p.groups) == 0 {
			anybody.set(i)
		}
		for _, u := range p.users {
			users.add(u, i)
		}
		if p.both {
			ix.asksBoth = true
			continue
		}
		for _, g := range p.groups {
			groups.add(g, i)
		}
	}
	u, okUsers := users.build(false)
	g, okGroups := groups.build(false)
	if !okUsers || !okGroups {
		ix.unindexed |= dimSubject
		return
	}
	u.rest, g.rest = nil, nil // here: nobody in particular
	ix.subject = subjectTable{anybody: anybody, users: u, groups: g}
}

// anybodyOf reports whether the clauses lo*64 … all accept every subject, so none has to be looked up.
func (t *subjectTable) anybodyOf(lo int, clauses []uint64) bool {
	var some uint64
	anybody := t.anybody[lo:]
	for w := range clauses {
		some |= clauses[w] &^ anybody[w]
	}
	return some == 0
}

// unite writes the clauses lo*64 … that accept the request's subject.
func (t *subjectTable) unite(rq *request, lo int, into []uint64) {
	copy(into, t.anybody[lo:])
	if !rq.authenticated {
		return
	}
	if r := t.users.find(rq.user); r != nil {
		or(into, r[lo:])
	}
	if t.groups.empty() {
		return
	}
	for _, g := range rq.groups {
		if r := t.groups.find(g); r != nil {
			or(into, r[lo:])
		}
	}
}

func or(into []uint64, r row) {
	for w := range into {
		into[w] |= r[w]
	}
}

func (t *table) empty() bool { return len(t.few) == 0 && t.keys == nil }

// resourceTable gives the clauses that accept a group and a resource: those that name the resource, united with those
// that want every resource of the group.
type resourceTable struct {
	byName map[string][]entry // per resource: the row of each group that is named with it; "*", if named, is the last
	group  table              // the clauses with resource "*", and those that want no resource in particular
	none   row
}

func (ix *Index) buildResource() {
	groups := ix.newTable()
	named := map[string]*tableBuilder{}
	var order []string
	for i, p := range ix.predicates {
		if p.target == targetAny {
			groups.any(i)
		}
		for _, pair := range p.pairs {
			switch {
			case pair.resource != wildcard:
				b := named[pair.resource]
				if b == nil {
					b = ix.newTable()
					named[pair.resource] = b
					order = append(order, pair.resource)
				}
				b.add(pair.group, i)
			case pair.group == wildcard:
				groups.any(i)
			default:
				groups.add(pair.group, i)
			}
		}
	}
	t := resourceTable{byName: make(map[string][]entry, len(named)), none: make(row, ix.words)}
	var ok bool
	if t.group, ok = groups.build(true); !ok {
		ix.unindexed |= dimResource
		return
	}
	spent := 0
	for _, resource := range order {
		b := named[resource]
		for _, clause := range b.lists[wildcard] {
			b.any(int(clause))
		}
		if spent += (len(b.order) + 1) * ix.words * 8; spent > ix.budget {
			ix.unindexed |= dimResource
			return
		}
		rows, _ := b.build(true)
		entries := rows.entries()
		// The row for "*" is the rest: every other group gets it.
		entries = slices.DeleteFunc(entries, func(e entry) bool { return e.key == wildcard })
		t.byName[resource] = append(entries, entry{wildcard, rows.rest})
	}
	ix.resource = t
}

func (t *table) entries() []entry {
	if t.keys == nil {
		return t.few
	}
	all := make([]entry, 0, len(t.keys))
	for key, r := range t.keys {
		all = append(all, entry{key, r})
	}
	return all
}

// find returns two rows: a clause of either accepts.
func (t *resourceTable) find(group, resource string) (named, every row) {
	every = t.group.find(group)
	entries := t.byName[resource]
	for i := range entries {
		if entries[i].key == group || i == len(entries)-1 {
			return entries[i].row, every
		}
	}
	return t.none, every
}

// pathTable gives the clauses that accept the path of a non-resource request.
type pathTable struct {
	any      row   // the clauses that want no path in particular
	exact    table // by path
	prefixes table // by what the path begins with
	lengths  []int // of the prefixes, shortest first
}

func (ix *Index) buildPath() {
	exact, prefixes := ix.newTable(), ix.newTable()
	t := pathTable{any: make(row, ix.words)}
	for i, p := range ix.predicates {
		if p.target == targetAny {
			t.any.set(i)
		}
		for _, pattern := range p.paths {
			prefix, ok := pathPrefix(pattern)
			switch {
			case !ok:
				exact.add(pattern, i)
			case prefix == "":
				t.any.set(i)
			default:
				prefixes.add(prefix, i)
				t.lengths = append(t.lengths, len(prefix))
			}
		}
	}
	slices.Sort(t.lengths)
	t.lengths = slices.Compact(t.lengths)
	var okExact, okPrefixes bool
	t.exact, okExact = exact.build(false)
	t.prefixes, okPrefixes = prefixes.build(false)
	if !okExact || !okPrefixes {
		ix.unindexed |= dimPath
		return
	}
	t.exact.rest, t.prefixes.rest = nil, nil // here: nothing matches
	ix.path = t
}

// unite writes the clauses lo*64 … that accept the path.
func (t *pathTable) unite(path string, lo int, into []uint64) {
	copy(into, t.any[lo:])
	if r := t.exact.find(path); r != nil {
		or(into, r[lo:])
	}
	for _, n := range t.lengths {
		if n > len(path) {
			return
		}
		if r := t.prefixes.find(path[:n]); r != nil {
			or(into, r[lo:])
		}
	}
}
