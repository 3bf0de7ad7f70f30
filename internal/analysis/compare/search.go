package compare

import (
	"context"
	"encoding/binary"
	"slices"
)

// search looks for a world that one side allows and the other does not.
type search struct {
	ctx      context.Context //nolint:containedctx // a search is one call
	universe Universe
	reader   *reader
	access   [2]Access
	sides    [2]side
	nodes    []*node // that are chosen, those above first
	budget   int
	steps    int

	chosen []int     // of each node: a state + 1, or 0
	free   []ternary // of each atom, while nothing is asked of the engine
	loose  []bool    // of each atom: it is not exact
	freely bool      // the second round: atoms that are not exact are chosen, not asked
	key    []byte
	unsure bool // a world was found that did not hold when it was checked
	over   bool
}

// number orders the nodes that are chosen.
func (s *search) number() {
	var add func(*node)
	add = func(n *node) {
		n.index = len(s.nodes)
		s.nodes = append(s.nodes, n)
		if n.structural() {
			for _, kid := range n.kids {
				add(kid)
			}
		}
	}
	for _, name := range variableNames {
		add(s.reader.vars[name])
	}
	// From now on no path is added, and whether one is chosen by itself does not change.
	for _, a := range s.reader.order {
		for _, n := range a.reads {
			n.way = n.chain()
		}
	}
	s.chosen = make([]int, len(s.nodes))
	s.free, s.loose = make([]ternary, len(s.reader.order)), make([]bool, len(s.reader.order))
	for _, a := range s.reader.order {
		s.loose[a.number] = inexact(a)
	}
	s.key = make([]byte, 0, 64)
}

// find returns a world that sides[yes] allows and sides[no] does not, or whether it is known that there is none, and
// why it is not.
func (s *search) find(allows, refuses int) (w *Witness, none bool, why error) {
	s.steps, s.unsure, s.over, s.freely = 0, false, false, false
	if w = s.branch(allows, refuses); w != nil {
		return w, false, nil
	}
	switch {
	case s.over:
		return nil, false, errBudget
	case s.unsure:
		return nil, false, errSamples
	case !slices.Contains(s.loose, true):
		return nil, true, nil
	}
	// Nothing was found among the samples. If nothing is there even if these atoms are as they like, there is nothing.
	s.freely, s.steps = true, 0
	s.branch(allows, refuses)
	s.freely = false
	switch {
	case s.over:
		return nil, false, errBudget
	case s.unsure:
		return nil, false, errSamples
	}
	return nil, true, nil
}

// inexact atoms may be told apart by values that are not among the states.
func inexact(a *atom) bool {
	if len(a.reads) > 0 && !slices.ContainsFunc(a.reads, func(n *node) bool { return slices.ContainsFunc(n.chain(), varies) }) {
		return false // there is one way it can be
	}
	return !a.exact || slices.ContainsFunc(a.reads, func(n *node) bool { return n.within().partial })
}

// varies reports whether a path is not the same in every world.
func varies(n *node) bool { return len(n.states) > 1 || n.partial }

func (s *search) branch(allows, refuses int) *Witness {
	if s.steps++; s.steps > s.budget || s.ctx.Err() != nil {
		s.over = true
		return nil
	}
	may, pending := s.sides[allows].eval(s.known)
	if may == no {
		return nil
	}
	other, pendingOther := s.sides[refuses].eval(s.known)
	if other == yes {
		return nil
	}
	if may == yes && other == no {
		if s.freely {
			s.unsure = true
			return nil
		}
		return s.checked(allows, refuses)
	}
	if pending == nil {
		pending = pendingOther
	}
	if s.freely && s.loose[pending.number] {
		for _, t := range []ternary{yes, no, fails} {
			s.free[pending.number] = t
			s.branch(allows, refuses)
			if s.unsure || s.over {
				break
			}
		}
		s.free[pending.number] = open
		return nil
	}
	n := s.next(pending)
	if n == nil {
		s.unsure = true
		return nil
	}
	for i := range n.states {
		s.chosen[n.index] = i + 1
		w := s.branch(allows, refuses)
		if w != nil || s.over || s.freely && s.unsure {
			s.chosen[n.index] = 0
			return w
		}
	}
	s.chosen[n.index] = 0
	return nil
}

// next is the first path that an atom reads and that has no value yet; nil if there is none, and then nothing can be
// told.
func (s *search) next(a *atom) *node {
	for _, read := range a.reads {
		for _, n := range read.chain() {
			if s.chosen[n.index] == 0 {
				return n
			}
			if n.states[s.chosen[n.index]-1] != inside {
				break
			}
		}
	}
	return nil
}

// known returns what is known about an atom with the values chosen so far.
func (s *search) known(a *atom) ternary {
	if s.freely && s.loose[a.number] {
		return s.free[a.number]
	}
	s.key = s.key[:0]
	for _, read := range a.reads {
		for _, n := range read.chain() {
			at := s.chosen[n.index]
			if at == 0 {
				return open
			}
			s.key = binary.AppendUvarint(s.key, uint64(at))
			if n.states[at-1] != inside {
				break
			}
		}
		s.key = append(s.key, 0)
	}
	if t, ok := a.results[string(s.key)]; ok {
		return t
	}
	stored := string(s.key)
	t := s.asked(a, s.world(a.reads...))
	a.results[stored] = t
	return t
}

// world is what is chosen, of some paths or of all.
func (s *search) world(of ...*node) world {
	w := world{}
	nodes := s.nodes
	if len(of) > 0 {
		nodes = nil
		for _, n := range of {
			nodes = append(nodes, n.chain()...)
		}
	}
	for _, n := range nodes {
		if at := s.chosen[n.index]; at > 0 {
			w[n] = n.states[at-1]
		} else if len(of) == 0 {
			w[n] = simplest(n)
		}
	}
	return w
}

// simplest is the state of a path that does not matter: nothing, if that can be.
func simplest(n *node) any {
	for _, wanted := range []any{absent, inside} {
		if slices.Contains(keysOf(n.states), key(wanted)) {
			return wanted
		}
	}
	return n.states[0]
}

func keysOf(values []any) (keys []string) {
	for _, v := range values {
		keys = append(keys, key(v))
	}
	return keys
}

// checked returns the chosen world if the conditions themselves agree, made as small as it can be.
func (s *search) checked(allows, refuses int) *Witness {
	agree := func(w world) *Witness {
		witness := s.witness(w)
		if !s.allows(s.access[allows], witness) || s.allows(s.access[refuses], witness) || !s.valid(w, witness) {
			return nil
		}
		return witness
	}
	w := s.world()
	found := agree(w)
	if found == nil {
		s.unsure = true
		return nil
	}
	for _, n := range slices.Backward(s.nodes) {
		if old, smaller := w[n], simplest(n); key(old) != key(smaller) && !isRoot(n) {
			w[n] = smaller
			if better := agree(w); better != nil {
				found = better
			} else {
				w[n] = old
			}
		}
	}
	return s.filled(found)
}

func isRoot(n *node) bool { return n.parent == nil }

// valid reports whether the objects conform to more than their shapes.
func (s *search) valid(w world, witness *Witness) bool {
	for n := range w {
		if n.shape != nil && n.shape.Loose && s.universe.Valid == nil && w.value(n) != absent {
			return false
		}
	}
	if s.universe.Valid == nil {
		return true
	}
	for _, object := range []map[string]any{witness.Object, witness.OldObject} {
		if object != nil && !s.universe.Valid(object) {
			return false
		}
	}
	return true
}

// filled has the fields that the author of the object must write.
func (s *search) filled(w *Witness) *Witness {
	for _, v := range []struct {
		object map[string]any
		shape  *Shape
	}{{w.Object, s.universe.Object}, {w.OldObject, s.universe.OldObject}} {
		if v.object != nil && v.shape != nil {
			fill(v.object, v.shape)
		}
	}
	return w
}

func fill(object map[string]any, shape *Shape) {
	for name, field := range shape.Fields {
		value, there := object[name]
		if !there && field.Needed {
			values, _ := (&pool{variants: 1}).plain(field)
			if len(values) == 0 {
				continue
			}
			value = values[0]
			object[name] = value
		}
		if sub, ok := value.(map[string]any); ok {
			fill(sub, field)
		}
	}
}
