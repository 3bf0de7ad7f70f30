package compare

// ternary is what is known about a formula. CEL has three values; the fourth is for parts that the search has not
// chosen yet.
type ternary uint8

const (
	open ternary = iota
	yes
	no
	fails
)

func not(t ternary) ternary {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return t
}

type operator uint8

const (
	constant operator = iota
	and
	or
	negation
	choice  // c ? a : b
	certain // holds if it holds or fails
	leaf
)

// formula is a condition, or a part of it, over atoms.
type formula struct {
	op    operator
	value ternary // of a constant
	kids  []*formula
	atom  *atom
}

var always, never = &formula{value: yes}, &formula{value: no}

func join(op operator, kids ...*formula) *formula {
	if len(kids) == 1 {
		return kids[0]
	}
	if len(kids) == 0 {
		return map[operator]*formula{and: always, or: never}[op]
	}
	return &formula{op: op, kids: kids}
}

// eval decides a formula as CEL does: a false part decides an and, whatever fails beside it. It returns an atom that is
// open, if any keeps the formula open.
func (f *formula) eval(of func(*atom) ternary) (ternary, *atom) {
	switch f.op {
	case constant:
		return f.value, nil
	case leaf:
		t := of(f.atom)
		if t == open {
			return open, f.atom
		}
		return t, nil
	case negation:
		t, a := f.kids[0].eval(of)
		return not(t), a
	case certain:
		t, a := f.kids[0].eval(of)
		if t == fails {
			t = yes
		}
		return t, a
	case choice:
		c, a := f.kids[0].eval(of)
		switch c {
		case yes:
			return f.kids[1].eval(of)
		case no:
			return f.kids[2].eval(of)
		}
		return c, a
	}
	decisive, neutral := no, yes
	if f.op == or {
		decisive, neutral = yes, no
	}
	result := neutral
	var first *atom
	for _, kid := range f.kids {
		t, a := kid.eval(of)
		switch {
		case t == decisive:
			return t, nil
		case t == open:
			if first == nil {
				first = a
			}
			result = open
		case t == fails && result != open:
			result = fails
		}
	}
	return result, first
}

// side is one of the two that are compared: rules, of which the first that holds decides. An allow that fails does not
// hold, a deny that fails does. Nothing is allowed that no rule allows.
type side []rule

type rule struct {
	*formula
	deny bool
}

func (s side) eval(of func(*atom) ternary) (ternary, *atom) {
	var allowed, refused bool // can be
	var first *atom
	for _, r := range s {
		t, a := r.formula.eval(of)
		decides := t == yes || t == fails && r.deny
		if decides || t == open {
			allowed, refused = allowed || !r.deny, refused || r.deny
		}
		if decides {
			return settled(allowed, refused, first)
		}
		if t == open && first == nil {
			first = a
		}
	}
	return settled(allowed, true, first)
}

func settled(allowed, refused bool, pending *atom) (ternary, *atom) {
	switch {
	case !allowed:
		return no, nil
	case !refused:
		return yes, nil
	}
	return open, pending
}
