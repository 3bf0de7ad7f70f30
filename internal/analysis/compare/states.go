package compare

import "slices"

// settle finds the states of a node and of those below it that are chosen by themselves.
func (s *search) settle(n *node) {
	if known, ok := s.reader.known[n.path()]; ok {
		n.states = []any{known}
		n.nothingBelow()
		return
	}
	var states set
	if n.shape == nil {
		n.states = []any{absent}
		n.nothingBelow()
		return
	}
	if !n.shape.Always {
		states.add(absent)
	}
	if n.structural() {
		for _, kid := range n.kids {
			s.settle(kid)
		}
		switch n.shape.Type {
		case Object, Map:
			states.add(inside)
		case Any:
			states.add(inside)
			if n.shape.Fields == nil { // not an object's root
				states.add(nil, "x", int64(1), true, []any{})
			}
		default:
			values, _ := (&pool{variants: 1}).scalars(n.shape)
			states.add(values...)
		}
		if n.shape.Null {
			states.add(nil)
		}
		n.states, n.partial = states.values, n.shape.Unseen
		return
	}
	values, partial := s.values(n)
	partial = partial || n.shape.Unseen
	states.add(values...)
	if n.shape.Null {
		states.add(nil)
	}
	if len(states.values) > maxStates {
		states.values, partial = states.values[:maxStates], true
	}
	n.states, n.partial = states.values, partial
}

// nothingBelow is for what can never be reached.
func (n *node) nothingBelow() {
	for _, kid := range n.kids {
		kid.states = []any{absent}
		kid.nothingBelow()
	}
}

// values are those of a node that is looked at as a whole, without absent and null.
func (s *search) values(n *node) (out []any, partial bool) {
	p := poolOf(n)
	partial = p.capped && n.shape.Type != Bool && len(n.shape.Enum) == 0
	var all set
	if t := n.shape.Type; t != List && t != Map && t != Object {
		scalars, some := p.scalars(n.shape)
		all.add(scalars...)
		partial = partial || some
	}
	if t := n.shape.Type; t == List || t == Any {
		lists, some := s.lists(n, p)
		all.add(lists...)
		partial = partial || some
	}
	if t := n.shape.Type; t == Map || t == Object || t == Any {
		maps, some := s.maps(n, p)
		all.add(maps...)
		partial = partial || some
	}
	if n.shape.Type == Any && len(n.equals) > 0 {
		partial = true // values of any depth are compared
	}
	return all.values, partial
}

// elements are the values that loops over n tell apart: one for each answer of all loops, found by asking them of lists
// with one element.
func (s *search) elements(n *node, p *pool) (out []any, partial bool) {
	var all set
	if n.element != nil {
		values, some := s.element(n.element)
		all.add(values...)
		partial = some
	}
	for _, c := range slices.Concat(p.constant, p.members(n)) {
		if list, ok := c.([]any); ok {
			all.add(list...)
		} else if slices.ContainsFunc(n.members, func(m any) bool { return same(m, c) }) {
			all.add(c)
		}
	}
	if n.shape.Type == List {
		values, _ := (&pool{variants: p.variants + 1}).plain(n.shape.Elem)
		all.add(values...)
	}
	return all.values, partial
}

func (p *pool) members(n *node) []any { return n.members }

// plain are simple values of a shape.
func (p *pool) plain(shape *Shape) ([]any, bool) {
	switch shape.Type {
	case List:
		return []any{[]any{}}, false
	case Map, Object:
		return []any{map[string]any{}}, false
	}
	return p.scalars(shape)
}

// element are the values of the elements of a loop: all combinations of what is told apart at their fields.
func (s *search) element(n *node) (out []any, partial bool) {
	if len(n.kids) == 0 {
		if n.shape.Type == List || n.shape.Type == Map || n.shape.Type == Object {
			return (&pool{variants: 1}).plain(n.shape)
		}
		return poolOf(n).scalars(n.shape)
	}
	var all set
	if n.shape.Type == Any {
		all.add("x", int64(1), true)
	}
	if n.shape.Null {
		all.add(nil)
	}
	combos := []map[string]any{{}}
	for _, kid := range n.kids {
		values, some := s.fieldValues(kid)
		partial = partial || some
		var next []map[string]any
		for _, c := range combos {
			for _, v := range values {
				made := make(map[string]any, len(c)+1)
				for name, old := range c {
					made[name] = old
				}
				if v != absent {
					made[kid.name] = v
				}
				next = append(next, made)
			}
		}
		if len(next) > maxElements*4 {
			next, partial = next[:maxElements*4], true
		}
		combos = next
	}
	for _, c := range combos {
		all.add(c)
	}
	return all.values, partial
}

// fieldValues are the values of a field inside of something that is chosen as a whole.
func (s *search) fieldValues(n *node) (out []any, partial bool) {
	if n.shape == nil {
		return []any{absent}, false
	}
	var all set
	if !n.shape.Always {
		all.add(absent)
	}
	if n.shape.Null {
		all.add(nil)
	}
	var values []any
	switch {
	case len(n.kids) > 0 && !n.compound():
		values, partial = s.element(n)
	default:
		values, partial = s.values(n)
	}
	all.add(values...)
	return all.values, partial
}

// lists are as few lists as tell the loops apart: each loop needs at most one element that decides it.
func (s *search) lists(n *node, p *pool) (out []any, partial bool) {
	elements, partial := s.elements(n, p)
	if len(n.loops) > 0 && !n.sampled && len(n.equals) == 0 {
		elements = s.apart(n, elements, func(e any) any { return []any{e} })
	}
	if len(n.loops) > 0 && len(p.sizes) == 0 && len(n.equals) == 0 && !p.sampled && !n.comparesLists() {
		return s.answers(n, elements), partial
	}
	needed := max(n.askers(), 1)
	if len(n.equals) > 0 && n.askers() > 0 {
		needed++ // one more, to differ from another list with the same answers
	}
	var all set
	add := func(list []any) {
		if len(list) > 0 || !n.shape.Full {
			all.add(list)
		}
	}
	add([]any{})
	layer := [][]any{{}}
	starts := []int{0}
	for range needed {
		var next [][]any
		var nextStarts []int
		for i, list := range layer {
			for j := starts[i]; j < len(elements); j++ {
				longer := append(list[:len(list):len(list)], elements[j])
				add(longer)
				next, nextStarts = append(next, longer), append(nextStarts, j+1)
			}
			if len(all.values) > maxStates {
				return all.values, true
			}
		}
		layer, starts = next, nextStarts
	}
	for _, c := range p.constant {
		if list, ok := c.([]any); ok {
			add(list)
			partial = partial || len(list) > 2 && len(p.sizes) > 0
		}
	}
	s.stretch(n, p, &all)
	return all.values, partial
}

func (n *node) comparesLists() bool {
	return slices.ContainsFunc(n.constant, func(c any) bool { list, ok := c.([]any); return ok && len(list) > 0 })
}

// answers are the shortest lists for every answer that the loops over them can give together. An answer for a longer
// list follows from that for the shorter one and for the element that is added, so that lists with the same answers
// need not be made longer twice.
func (s *search) answers(n *node, elements []any) (out []any) {
	neutral := s.vector(n, []any{})
	vectors := make([][]ternary, len(elements))
	for i, e := range elements {
		vectors[i] = s.vector(n, []any{e})
	}
	type made struct {
		list   []any
		vector []ternary
	}
	seen := map[string]bool{}
	var queue []made
	add := func(m made) {
		text := make([]byte, len(m.vector))
		for i, t := range m.vector {
			text[i] = byte(t)
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			queue = append(queue, m)
		}
	}
	if n.shape.Full {
		for i := range elements {
			add(made{elements[i : i+1], vectors[i]})
		}
	} else {
		add(made{[]any{}, neutral})
	}
	for at := 0; at < len(queue) && at <= maxStates; at++ {
		m := queue[at]
		out = append(out, m.list)
		for i, e := range elements {
			longer := make([]ternary, len(neutral))
			for j, t := range m.vector {
				switch {
				case t == not(neutral[j]) || vectors[i][j] == not(neutral[j]):
					longer[j] = not(neutral[j])
				case t == fails || vectors[i][j] == fails:
					longer[j] = fails
				default:
					longer[j] = neutral[j]
				}
			}
			add(made{append(m.list[:len(m.list):len(m.list)], e), longer})
		}
	}
	return out
}

// vector is what all loops over n say of a list.
func (s *search) vector(n *node, list []any) (v []ternary) {
	for _, a := range n.loops {
		v = append(v, s.tried(a, n, list))
	}
	return v
}

// stretch adds lists of the sizes that are asked for, and the same in another order, where that is told apart.
func (s *search) stretch(n *node, p *pool, all *set) {
	exactly := slices.ContainsFunc(p.constant, func(c any) bool { list, ok := c.([]any); return ok && len(list) > 0 })
	base := slices.Clone(all.values)
	for _, v := range base {
		list := v.([]any)
		if len(list) == 0 {
			continue
		}
		if exactly || n.sampled || len(n.equals) > 0 {
			turned := slices.Clone(list)
			slices.Reverse(turned)
			all.add(turned, append(slices.Clone(list), list[len(list)-1]))
		}
		for _, size := range p.sizes {
			for _, length := range []int64{size - 1, size, size + 1} {
				if length > int64(len(list)) {
					longer := slices.Clone(list)
					for int64(len(longer)) < length {
						longer = append(longer, list[len(list)-1])
					}
					all.add(longer)
				}
			}
		}
	}
}

// apart keeps one of the values that no atom about n alone tells from another.
func (s *search) apart(n *node, values []any, wrap func(any) any) (out []any) {
	seen := map[string]bool{}
	for _, v := range values {
		vector := make([]byte, 0, len(n.loops))
		for _, a := range n.loops {
			vector = append(vector, byte(s.tried(a, n, wrap(v))))
		}
		for _, c := range n.constant { // elements of lists that are compared as a whole stay
			if list, ok := c.([]any); ok && slices.ContainsFunc(list, func(e any) bool { return same(e, v) }) {
				vector = append(vector, key(v)...)
			}
		}
		if !seen[string(vector)] {
			seen[string(vector)] = true
			out = append(out, v)
		}
	}
	return out
}

// maps are as few maps as tell the loops over keys and the keys that are looked at apart.
func (s *search) maps(n *node, p *pool) (out []any, partial bool) {
	combos := []map[string]any{{}}
	grow := func(name string, values []any) {
		var next []map[string]any
		for _, c := range combos {
			for _, v := range values {
				made := make(map[string]any, len(c)+1)
				for k, old := range c {
					made[k] = old
				}
				if v != absent {
					made[name] = v
				}
				next = append(next, made)
			}
		}
		if len(next) > maxStates {
			next, partial = next[:maxStates], true
		}
		combos = next
	}
	for _, kid := range n.kids {
		values, some := s.fieldValues(kid)
		if n.shape.Type == Map {
			values = append([]any{absent}, slices.DeleteFunc(values, func(v any) bool { return v == absent })...)
		}
		partial = partial || some
		grow(kid.name, values)
	}
	if n.shape.Type != Object {
		partial = s.keys(n, p, grow) || partial
	}
	var all set
	for _, c := range combos {
		if len(c) > 0 || !n.shape.Full {
			all.add(c)
		}
	}
	if n.shape.Type == Object && (len(n.equals) > 0 || n.sampled) {
		partial = true // they may differ where nobody looks
		for name, field := range n.shape.Fields {
			if field.Type == String && len(all.values) < maxStates {
				all.add(map[string]any{name: "x"})
			}
		}
	}
	for _, c := range p.constant {
		if m, ok := c.(map[string]any); ok {
			all.add(m)
		}
	}
	for _, size := range p.sizes {
		for _, c := range slices.Clone(all.values) {
			for _, length := range []int64{size - 1, size, size + 1} {
				made := map[string]any{}
				for name, v := range c.(map[string]any) {
					made[name] = v
				}
				for i := 0; int64(len(made)) < length; i++ {
					made["key"+string(rune('a'+i%26))+string(rune('a'+i/26))] = s.anyValue(n)
				}
				all.add(made)
			}
		}
		partial = partial || n.element != nil
	}
	return all.values, partial
}

// keys adds the keys that loops tell apart and nobody looks at by name.
func (s *search) keys(n *node, p *pool, grow func(string, []any)) (partial bool) {
	names := []any{fillerFor(nil)}
	if n.element != nil {
		if len(n.element.kids) > 0 {
			return true
		}
		elements := poolOf(n.element)
		elements.variants = p.variants
		names, partial = elements.texts()
		if len(n.loops) > 0 && !n.sampled && len(n.equals) == 0 {
			names = s.apart(n, names, func(e any) any { return map[string]any{e.(string): s.anyValue(n)} })
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(n.kids, func(kid *node) bool { return kid.name == name }) || name == "" {
			continue
		}
		values := []any{absent, s.anyValue(n)}
		if p.variants > 1 && n.shape.Elem != nil {
			more, _ := (&pool{variants: p.variants}).plain(n.shape.Elem)
			values = append([]any{absent}, more...)
		}
		grow(name.(string), values)
	}
	return partial
}

func (s *search) anyValue(n *node) any {
	if n.shape.Type == Map && n.shape.Elem != nil {
		if values, _ := (&pool{variants: 1}).plain(n.shape.Elem); len(values) > 0 {
			return values[0]
		}
	}
	return "x"
}
