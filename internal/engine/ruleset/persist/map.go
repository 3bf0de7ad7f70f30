package persist

import "slices"

// Owner marks what one edit has created, so the edit may change it in place until it is done. It must not have size
// zero, since two such values can share an address.
type Owner struct{ _ byte }

const (
	// smallMax is the number of entries up to which a map is one slice: most maps by namespace have one entry.
	smallMax = 8
	// nodeBuckets is how many buckets are copied together when one of them changes.
	nodeBuckets = 64
	// bucketLoad is the mean number of entries of a bucket.
	bucketLoad = 4
)

// Map is a persistent hash map: a copy of the struct is a snapshot, and a change copies only the path to what changes.
// The caller supplies the hash, so one string is hashed only once per request, for all maps. The hash has to be seeded,
// because names come from users.
type Map[K comparable, V any] struct {
	small []item[K, V]
	nodes []*node[K, V] // a power of two, or none while small is in use
	owner *Owner        // of the slice nodes
	n     int
}

type item[K comparable, V any] struct {
	hash uint64
	key  K
	val  V
}

type node[K comparable, V any] struct {
	owner   *Owner
	buckets [nodeBuckets][]item[K, V]
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return m.n }

func (m *Map[K, V]) bucket(hash uint64) []item[K, V] {
	if len(m.nodes) == 0 {
		return m.small
	}
	return m.nodes[(hash/nodeBuckets)&uint64(len(m.nodes)-1)].buckets[hash%nodeBuckets]
}

// Get looks up a key by its hash.
func (m *Map[K, V]) Get(hash uint64, key K) (V, bool) {
	b := m.bucket(hash)
	for i := range b {
		if b[i].hash == hash && b[i].key == key {
			return b[i].val, true
		}
	}
	var none V
	return none, false
}

// Each visits all entries until visit returns false. The order depends on the seed: sort what is shown to people.
func (m *Map[K, V]) Each(visit func(K, V) bool) {
	for i := range m.small {
		if !visit(m.small[i].key, m.small[i].val) {
			return
		}
	}
	for _, n := range m.nodes {
		for _, b := range n.buckets {
			for i := range b {
				if !visit(b[i].key, b[i].val) {
					return
				}
			}
		}
	}
}

// EachApart visits the entries outside the parts that the two maps share. If one was derived from the other by a few
// changes, these are few.
func (m *Map[K, V]) EachApart(o *Map[K, V], visit func(K, V)) {
	shared := map[*node[K, V]]bool{}
	for _, n := range o.nodes {
		shared[n] = true
	}
	for i := range m.small {
		visit(m.small[i].key, m.small[i].val)
	}
	for _, n := range m.nodes {
		if shared[n] {
			continue
		}
		for _, b := range n.buckets {
			for i := range b {
				visit(b[i].key, b[i].val)
			}
		}
	}
}

// Set stores val under key in this copy of the map; other copies keep what they had.
func (m *Map[K, V]) Set(o *Owner, hash uint64, key K, val V) {
	b := m.bucket(hash)
	i := find(b, hash, key)
	if i < 0 && len(m.nodes) == 0 && len(m.small) == smallMax {
		m.grow(o, 1)
		b = m.bucket(hash)
	} else if i < 0 && len(m.nodes) > 0 && m.n >= len(m.nodes)*nodeBuckets*bucketLoad {
		m.grow(o, 2*len(m.nodes))
		b = m.bucket(hash)
	}
	next := make([]item[K, V], len(b), len(b)+1)
	copy(next, b)
	if i < 0 {
		next = append(next, item[K, V]{hash, key, val})
		m.n++
	} else {
		next[i].val = val
	}
	m.replace(o, hash, next)
}

// Remove deletes key from this copy of the map.
func (m *Map[K, V]) Remove(o *Owner, hash uint64, key K) {
	b := m.bucket(hash)
	i := find(b, hash, key)
	if i < 0 {
		return
	}
	next := slices.Concat(b[:i], b[i+1:])
	m.n--
	m.replace(o, hash, next)
}

// Reserve makes room for n entries in a map that is still empty.
func (m *Map[K, V]) Reserve(o *Owner, n int) {
	if m.n > 0 || n <= smallMax {
		return
	}
	nodes := 1
	for nodes*nodeBuckets*bucketLoad < n {
		nodes *= 2
	}
	m.grow(o, nodes)
}

func find[K comparable, V any](b []item[K, V], hash uint64, key K) int {
	for i := range b {
		if b[i].hash == hash && b[i].key == key {
			return i
		}
	}
	return -1
}

func (m *Map[K, V]) replace(o *Owner, hash uint64, b []item[K, V]) {
	if len(m.nodes) == 0 {
		m.small = b
		return
	}
	if m.owner != o {
		m.nodes, m.owner = slices.Clone(m.nodes), o
	}
	at := (hash / nodeBuckets) & uint64(len(m.nodes)-1)
	if m.nodes[at].owner != o {
		c := *m.nodes[at]
		c.owner = o
		m.nodes[at] = &c
	}
	m.nodes[at].buckets[hash%nodeBuckets] = b
}

// grow spreads the entries over more nodes. The buckets are new, so appending never writes into another copy.
func (m *Map[K, V]) grow(o *Owner, nodes int) {
	next := make([]*node[K, V], nodes)
	for i := range next {
		next[i] = &node[K, V]{owner: o}
	}
	put := func(b []item[K, V]) {
		for _, it := range b {
			bucket := &next[(it.hash/nodeBuckets)&uint64(nodes-1)].buckets[it.hash%nodeBuckets]
			*bucket = append(*bucket, it)
		}
	}
	put(m.small)
	for _, n := range m.nodes {
		for _, b := range n.buckets {
			put(b)
		}
	}
	m.small, m.nodes, m.owner = nil, next, o
}
