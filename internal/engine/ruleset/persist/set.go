package persist

import (
	"math/bits"
	"slices"
)

const (
	// setSlots is how many places a node has, and setMost how many of them are taken before the set grows. Looking up a
	// missing key ends at a free place, so there must always be one.
	setSlots = 256
	setMost  = 240
	// setLoad is the mean number of members of a node for which a set makes room; the fullest node then has some fifty
	// more.
	setLoad = 168
)

// Member is what a Set holds, a pointer. It knows its own key: a set of a million members holds no copy of their keys.
type Member[K comparable] interface {
	comparable
	HasKey(K) bool
}

// Set is a persistent hash set of members that are looked up by their keys, like Map: a copy of the struct is a
// snapshot, and a change copies only a node. A look-up waits for memory twice, once for the place in
// the node and once for the member itself. The hash has to be seeded: members that have the same one are few.
type Set[K comparable, M Member[K]] struct {
	nodes []*setNode[K, M]
	owner *Owner // of the slice nodes
	n     int
}

type setNode[K comparable, M Member[K]] struct {
	places [setSlots]place[M]
	owner  *Owner
	used   int
}

// place holds a member, or the zero value. A member is in the first free place from the one that its hash selects.
type place[M any] struct {
	hash   uint64
	member M
}

// Len is the number of members.
func (s *Set[K, M]) Len() int { return s.n }

// node returns the node of a hash. The higher bits select the node, the lower ones the place in it.
func (s *Set[K, M]) node(hash uint64) int {
	at, _ := bits.Mul64(hash, uint64(len(s.nodes)))
	return int(at)
}

// Get looks up a key by its hash.
func (s *Set[K, M]) Get(hash uint64, key K) (M, bool) {
	var none M
	if len(s.nodes) == 0 {
		return none, false
	}
	places := &s.nodes[s.node(hash)].places
	for i := hash % setSlots; ; i = (i + 1) % setSlots {
		p := &places[i]
		if p.member == none {
			return none, false
		}
		if p.hash == hash && p.member.HasKey(key) {
			return p.member, true
		}
	}
}

// Each visits all members until visit returns false. The order depends on the seed: sort what is shown to people.
func (s *Set[K, M]) Each(visit func(M) bool) {
	for _, n := range s.nodes {
		if !n.each(visit) {
			return
		}
	}
}

// EachApart visits the members outside the parts that the two sets share. If one was derived from the other by a few
// changes, these are few.
func (s *Set[K, M]) EachApart(o *Set[K, M], visit func(M)) {
	shared := make(map[*setNode[K, M]]bool, len(o.nodes))
	for _, n := range o.nodes {
		shared[n] = true
	}
	for _, n := range s.nodes {
		if !shared[n] {
			n.each(func(m M) bool { visit(m); return true })
		}
	}
}

// Put stores a member in this copy of the set, in place of the one that has the same key; other copies keep what they
// had.
func (s *Set[K, M]) Put(o *Owner, hash uint64, key K, member M) {
	if len(s.nodes) == 0 || s.nodes[s.node(hash)].used == setMost {
		s.grow(o, max(1, len(s.nodes)+(len(s.nodes)+3)/4))
	}
	n := s.edit(o, hash)
	if i, found := n.find(hash, key); found {
		n.places[i].member = member
		return
	}
	n.add(place[M]{hash, member})
	s.n++
}

// Remove deletes the member that has the key from this copy of the set.
func (s *Set[K, M]) Remove(o *Owner, hash uint64, key K) {
	if _, found := s.Get(hash, key); !found {
		return
	}
	n := s.edit(o, hash)
	gone, _ := n.find(hash, key)
	// Members behind the gap would no longer be found: all of them are placed again.
	old := *n
	*n = setNode[K, M]{owner: o}
	old.eachPlace(func(i int, p place[M]) bool {
		if i != gone {
			n.add(p)
		}
		return true
	})
	s.n--
}

// Reserve makes room for n members in a set that is still empty.
func (s *Set[K, M]) Reserve(o *Owner, n int) {
	if s.n == 0 && n > setLoad {
		s.grow(o, (n+setLoad-1)/setLoad)
	}
}

// edit returns the node of a hash for changing.
func (s *Set[K, M]) edit(o *Owner, hash uint64) *setNode[K, M] {
	if s.owner != o {
		s.nodes, s.owner = slices.Clone(s.nodes), o
	}
	at := s.node(hash)
	if s.nodes[at].owner != o {
		c := *s.nodes[at]
		c.owner = o
		s.nodes[at] = &c
	}
	return s.nodes[at]
}

// grow spreads the members over more nodes, and over even more if one of them still gets full.
func (s *Set[K, M]) grow(o *Owner, nodes int) {
	next := Set[K, M]{nodes: make([]*setNode[K, M], nodes), owner: o, n: s.n}
	for i := range next.nodes {
		next.nodes[i] = &setNode[K, M]{owner: o}
	}
	for _, n := range s.nodes {
		fits := n.eachPlace(func(_ int, p place[M]) bool {
			to := next.nodes[next.node(p.hash)]
			if to.used == setMost {
				return false
			}
			to.add(p)
			return true
		})
		if !fits {
			s.grow(o, nodes+(nodes+3)/4)
			return
		}
	}
	*s = next
}

// find returns the place of a key.
func (n *setNode[K, M]) find(hash uint64, key K) (int, bool) {
	var none M
	for i := int(hash % setSlots); n.places[i].member != none; i = (i + 1) % setSlots {
		if p := &n.places[i]; p.hash == hash && p.member.HasKey(key) {
			return i, true
		}
	}
	return 0, false
}

// add puts a member into the first free place; there always is one.
func (n *setNode[K, M]) add(p place[M]) {
	var none M
	i := p.hash % setSlots
	for n.places[i].member != none {
		i = (i + 1) % setSlots
	}
	n.places[i] = p
	n.used++
}

func (n *setNode[K, M]) each(visit func(M) bool) bool {
	return n.eachPlace(func(_ int, p place[M]) bool { return visit(p.member) })
}

// eachPlace visits the places that are taken until visit returns false, and reports whether it never did.
func (n *setNode[K, M]) eachPlace(visit func(int, place[M]) bool) bool {
	var none M
	for i, p := range n.places {
		if p.member != none && !visit(i, p) {
			return false
		}
	}
	return true
}
