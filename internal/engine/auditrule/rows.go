package auditrule

import (
	"encoding/binary"
)

// row has one bit for each clause of the index: set if the clause accepts the value that the row stands for. A nil row
// accepts every clause.
type row []uint64

func (r row) set(i int) { r[i/64] |= 1 << (i % 64) }

// table gives the row of a value in one dimension: that of its key, or rest, the clauses that do not look at this
// dimension.
type table struct {
	rest row
	keys map[string]row
	few  []entry // instead of keys when they are few: comparing is quicker than hashing
}

type entry struct {
	key string
	row row
}

const fewKeys = 6

func (t *table) find(key string) row {
	if t.keys != nil {
		if r, ok := t.keys[key]; ok {
			return r
		}
		return t.rest
	}
	for i := range t.few {
		if t.few[i].key == key {
			return t.few[i].row
		}
	}
	return t.rest
}

// tableBuilder collects which clauses accept which values. Building shares equal rows and gives up if a dimension would
// need more than its budget: the index then checks the clauses themselves, so memory stays linear in the input.
type tableBuilder struct {
	words  int
	budget int
	rest   row
	lists  map[string][]int32
	order  []string
}

// rowBudget is how many bytes the rows of one dimension may take.
const rowBudget = 8 << 20

func (ix *Index) newTable() *tableBuilder {
	return &tableBuilder{words: ix.words, budget: ix.budget, rest: make(row, ix.words), lists: map[string][]int32{}}
}

func (b *tableBuilder) any(clause int) { b.rest.set(clause) }

func (b *tableBuilder) add(key string, clause int) {
	list, seen := b.lists[key]
	if !seen {
		b.order = append(b.order, key)
	}
	if n := len(list); n > 0 && list[n-1] == int32(clause) {
		return
	}
	b.lists[key] = append(list, int32(clause))
}

// build returns the table; base says whether the row of a key also holds the clauses that do not look at this
// dimension. ok is false if the table would be too large.
func (b *tableBuilder) build(base bool) (t table, ok bool) {
	t = table{rest: b.rest}
	rows := map[string]row{}
	byKey := make([]entry, 0, len(b.order))
	var id []byte
	for _, key := range b.order {
		id = id[:0]
		for _, clause := range b.lists[key] {
			id = binary.LittleEndian.AppendUint32(id, uint32(clause))
		}
		r := rows[string(id)]
		if r == nil {
			if (len(rows)+1)*b.words*8 > b.budget {
				return table{}, false
			}
			r = make(row, b.words)
			if base {
				copy(r, b.rest)
			}
			for _, clause := range b.lists[key] {
				r.set(int(clause))
			}
			rows[string(id)] = r
		}
		byKey = append(byKey, entry{key, r})
	}
	if len(byKey) <= fewKeys {
		t.few = byKey
		return t, true
	}
	t.keys = make(map[string]row, len(byKey))
	for _, e := range byKey {
		t.keys[e.key] = e.row
	}
	return t, true
}

// full reports whether every clause up to n is set.
func (r row) full(n int) bool {
	for i := 0; i < n; i++ {
		if r[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}
