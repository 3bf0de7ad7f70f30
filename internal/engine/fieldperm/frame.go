package fieldperm

import (
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// frame is a position of the walk: one step of the path from the object to what is being compared.
type frame struct {
	name string
	kind stepKind
	// loose is set for an entry that nothing identifies as a map entry: it is written like a field.
	loose bool
	// list is set for an element of a keyed list whose name was not needed yet.
	list *schema.List
	// index is the element's position in the new list, or -1.
	index int
	// from and to delimit the tree's nodes at this position in walker.states.
	from, to int
	// guarded is set if something at or above this position may be exclusive.
	guarded bool
	// element is set for a list's element.
	element bool
	// opaque is set where values can no longer be distinguished: everything that might be exclusive counts as
	// exclusive.
	opaque bool
	// old and new are the values here; nil if there is none.
	old, new value.Value
	// class of what changes here; set when it is first needed.
	class *class
	// reset holds the fields below that the endpoint sets itself.
	reset *fieldpath.Set
}

type stepKind uint8

const (
	rootStep  stepKind = iota
	fieldStep          // a field of the schema
	entryStep          // a key of a map, or a field that no schema knows
	itemStep           // an element of a list
	anyStep            // every entry, where they cannot be distinguished
)

// step returns the path element of frame i.
func (w *walker) step(i int) Element {
	f := &w.frames[i]
	switch f.kind {
	case fieldStep:
		return Field(f.name)
	case entryStep:
		return Element{Name: f.name, Bracket: !f.loose}
	case anyStep:
		return Any()
	case itemStep:
		if f.list != nil {
			f.name, f.list = w.itemName(f.list, f.item()), nil
		}
	}
	return Key(f.name)
}

// item returns a value with the element's key: old and new have the same key.
func (f *frame) item() value.Value {
	if f.new != nil {
		return f.new
	}
	return f.old
}

// path returns the path of the top frame.
func (w *walker) path() Path {
	p := make(Path, 0, len(w.frames)-1)
	for i := 1; i < len(w.frames); i++ {
		p = append(p, w.step(i))
	}
	return p
}

// comesBefore reports whether the top frame's path comes before p, without building it.
func (w *walker) comesBefore(p Path) bool {
	n := len(w.frames) - 1
	for i := range min(n, len(p)) {
		if c := w.step(i + 1).compare(p[i]); c != 0 {
			return c < 0
		}
	}
	return n < len(p)
}

func (w *walker) top() *frame { return &w.frames[len(w.frames)-1] }

// push enters a child of the top frame and finds the tree's nodes there.
func (w *walker) push(f frame) {
	parent := w.top()
	f.from = len(w.states)
	for _, n := range w.states[parent.from:parent.to] {
		w.enter(n, &f)
	}
	w.finishPush(f, parent.guarded)
}

// pushNode enters a known node of the tree.
func (w *walker) pushNode(f frame, n *node) {
	guarded := w.top().guarded
	f.from = len(w.states)
	w.states = append(w.states, n)
	w.finishPush(f, guarded)
}

func (w *walker) finishPush(f frame, guarded bool) {
	f.to = len(w.states)
	f.guarded = guarded
	for _, n := range w.states[f.from:f.to] {
		for _, p := range n.perms {
			f.guarded = f.guarded || p.Exclusive
		}
	}
	w.frames = append(w.frames, f)
}

// enter appends the children of n that the frame matches. A key in brackets also matches a field of that name, and vice
// versa where no schema distinguishes fields from keys.
func (w *walker) enter(n *node, f *frame) {
	if f.kind != itemStep && n.fields != nil {
		w.reach(n.fields[f.name])
	}
	if n.keys != nil {
		name := f.name
		if f.list != nil {
			name = w.itemName(f.list, f.item())
			f.name, f.list = name, nil
		}
		if w.reach(n.keys[name]) {
			f.loose = false // its declaration says that it is a map
		}
	}
	if f.kind != fieldStep && w.reach(n.any) {
		f.loose = false
	}
}

func (w *walker) reach(n *node) bool {
	if n == nil {
		return false
	}
	w.states = append(w.states, n)
	return true
}

func (w *walker) pop() {
	w.states = w.states[:w.top().from]
	w.frames = w.frames[:len(w.frames)-1]
}

// leaf is the place of a changed field in the decoded object, by names and positions.
type leaf []leafStep

type leafStep struct {
	name  string
	index int // used if name is empty
	item  bool
}

func (w *walker) leaf() leaf {
	l := make(leaf, 0, len(w.frames)-1)
	for _, f := range w.frames[1:] {
		if f.element {
			l = append(l, leafStep{index: f.index, item: true})
		} else {
			l = append(l, leafStep{name: f.name})
		}
	}
	return l
}

// itemName returns the name of a keyed list's element: the value of its key, or name=value where it has several keys.
func (w *walker) itemName(list *schema.List, item value.Value) string {
	if item == nil || !item.IsMap() {
		return ""
	}
	m := item.AsMapUsing(w.alloc)
	defer w.alloc.Free(m)
	var parts []string
	for _, key := range list.Keys {
		var text string
		if v, ok := m.Get(key); ok {
			text = keyText(v)
		} else if def := w.keyDefault(list, key); def != nil {
			text = keyText(value.NewValueInterface(def))
		} else {
			continue
		}
		if len(list.Keys) == 1 {
			return text
		}
		parts = append(parts, key+"="+text)
	}
	return strings.Join(parts, ",")
}

// keyText returns a scalar as it appears in brackets.
func keyText(v value.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsInt():
		return strconv.FormatInt(v.AsInt(), 10)
	case v.IsFloat():
		return strconv.FormatFloat(v.AsFloat(), 'g', -1, 64)
	case v.IsBool():
		return strconv.FormatBool(v.AsBool())
	}
	return ""
}
