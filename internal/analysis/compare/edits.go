package compare

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Edit is a change of one field: its new value, or that it goes.
type Edit struct {
	// Path consists of field names and keys (string) and of positions in lists (int).
	Path   []any
	Value  any
	Remove bool
}

// String returns the path as people write it.
func (e Edit) String() string {
	var b strings.Builder
	for i, part := range e.Path {
		switch part := part.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(part) + "]")
		case string:
			if strings.ContainsFunc(part, func(r rune) bool { return !isWord(r) }) {
				b.WriteString("[" + strconv.Quote(part) + "]")
				continue
			}
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

func isWord(r rune) bool {
	return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// maxEdits bounds how many edits are made of one list or map.
const maxEdits = 16

// fixed are what a write cannot change, or only by being another request.
var fixed = []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.generateName", "metadata.uid", "metadata.resourceVersion",
	"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.generation", "metadata.managedFields", "status"}

// Edits lists groups of edits of an object that an access may tell apart: the values that a search for a witness tries,
// where the object has others, and what is there to be taken away. A group is one edit, or what makes one element of a
// list another. whole makes the object what some witness of the access is, if there is one.
func (c *Comparer) Edits(ctx context.Context, a Access, u Universe, w *Witness) (groups [][]Edit, whole []Edit, err error) {
	s, err := c.prepare(ctx, Access{}, a, u)
	if err != nil {
		return nil, nil, err
	}
	e := &editor{witness: w}
	root, object := s.reader.vars["object"], w.Object
	if object == nil {
		root, object = s.reader.vars["oldObject"], w.OldObject
	}
	for _, kid := range root.kids {
		value, there := object[kid.name]
		e.visit(kid, []any{kid.name}, value, there)
	}
	groups, e.groups, e.seen = e.groups, nil, nil
	if found, _, _ := s.find(1, 0); found != nil {
		wanted := found.Object
		if w.Object == nil {
			wanted = found.OldObject
		}
		for _, one := range become(nil, object, wanted) {
			e.add(one)
		}
	}
	return groups, slices.Concat(e.groups...), nil
}

// editor collects edits.
type editor struct {
	witness *Witness
	groups  [][]Edit
	seen    map[string]bool
}

func (e *editor) add(edits ...Edit) {
	var id strings.Builder
	for _, one := range edits {
		path := one.String()
		if slices.ContainsFunc(fixed, func(f string) bool { return path == f || strings.HasPrefix(path, f+".") }) || path == "metadata" || path == "spec" && one.Remove {
			return
		}
		id.WriteString(path + "=" + key(one.Value) + strconv.FormatBool(one.Remove) + "\n")
	}
	if e.seen == nil {
		e.seen = map[string]bool{}
	}
	if len(edits) == 0 || e.seen[id.String()] {
		return
	}
	e.seen[id.String()] = true
	e.groups = append(e.groups, edits)
}

func (e *editor) visit(n *node, path []any, actual any, there bool) {
	if n.structural() {
		fields, _ := actual.(map[string]any)
		for _, kid := range n.kids {
			value, has := fields[kid.name]
			e.visit(kid, append(slices.Clip(path), kid.name), value, has)
		}
		if there && slices.Contains(keysOf(n.states), key(absent)) {
			e.add(Edit{Path: path, Remove: true})
		}
		return
	}
	for _, state := range n.states {
		switch state := state.(type) {
		case absentValue:
			if there {
				e.add(Edit{Path: path, Remove: true})
			}
		case nil, insideValue:
		case []any:
			list, _ := actual.([]any)
			e.list(path, list, state)
		case map[string]any:
			fields, _ := actual.(map[string]any)
			e.fields(path, fields, state)
		default:
			if !there || !same(state, actual) {
				e.add(Edit{Path: path, Value: state})
			}
		}
	}
	for _, other := range n.equals {
		if value, ok := e.witness.at(other); ok && (!there || !same(value, actual)) {
			e.add(Edit{Path: path, Value: value})
		}
	}
}

// list edits a list: an element becomes like one of those wanted, one is added, one goes, or it is as wanted.
func (e *editor) list(path []any, actual, wanted []any) {
	for _, element := range wanted {
		_, deep := element.(map[string]any)
		more := Edit{Path: append(slices.Clip(path), len(actual)), Value: element}
		lacks := !slices.ContainsFunc(actual, func(a any) bool { return same(a, element) })
		if lacks && !deep {
			e.add(more)
		}
		var all []Edit
		for i, old := range actual[:min(len(actual), maxEdits)] {
			edits := become(append(slices.Clip(path), i), old, element)
			e.add(edits...)
			all = append(all, edits...)
		}
		e.add(all...)
		if lacks {
			e.add(more)
		}
	}
	for i := range actual[:min(len(actual), maxEdits)] {
		e.add(Edit{Path: append(slices.Clip(path), i), Remove: true})
	}
	if len(actual) == 0 && len(wanted) > 1 {
		e.add(Edit{Path: path, Value: wanted})
	}
}

// fields edits a map: a key is as wanted, or goes.
func (e *editor) fields(path []any, actual, wanted map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		e.add(become(append(slices.Clip(path), name), actual[name], wanted[name])...)
	}
	for i, name := range slices.Sorted(maps.Keys(actual)) {
		if i < maxEdits {
			e.add(Edit{Path: append(slices.Clip(path), name), Remove: true})
		}
	}
}

// become are the edits that give a value what another has.
func become(path []any, old, wanted any) (edits []Edit) {
	fields, ok := wanted.(map[string]any)
	have, too := old.(map[string]any)
	if ok && (too || old == nil && len(fields) > 0) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			edits = append(edits, become(append(slices.Clip(path), name), have[name], fields[name])...)
		}
		return edits
	}
	if same(old, wanted) {
		return nil
	}
	return []Edit{{Path: path, Value: wanted}}
}

// at is the value of a path in a request and its objects.
func (w *Witness) at(n *node) (any, bool) {
	if n.parent != nil {
		above, _ := w.at(n.parent)
		fields, _ := above.(map[string]any)
		value, ok := fields[n.name]
		return value, ok
	}
	switch n.name {
	case "object":
		return w.Object, w.Object != nil
	case "oldObject":
		return w.OldObject, w.OldObject != nil
	case "target":
		return w.Target, w.Target != nil
	case "namespaceObject":
		return w.Namespace, w.Namespace != nil
	}
	return nil, false
}

// Apply makes edits on a copy of an object.
func Apply(object map[string]any, edits []Edit) map[string]any {
	out := any(runtime.DeepCopyJSON(object))
	order := slices.Clone(edits)
	slices.SortStableFunc(order, func(a, b Edit) int { // what goes from a list goes last, from its end
		if a.Remove != b.Remove {
			return cmp.Compare(rank(a), rank(b))
		}
		return -cmp.Compare(last(a), last(b)) * rank(a)
	})
	for _, e := range order {
		out = e.on(out, e.Path)
	}
	result, _ := out.(map[string]any)
	return result
}

func rank(e Edit) int {
	if e.Remove {
		return 1
	}
	return 0
}

func last(e Edit) int {
	i, _ := e.Path[len(e.Path)-1].(int)
	return i
}

// on makes an edit of what is at a path of a value.
func (e Edit) on(value any, path []any) any {
	if len(path) == 0 {
		return runtime.DeepCopyJSONValue(e.Value)
	}
	switch at := path[0].(type) {
	case string:
		fields, ok := value.(map[string]any)
		if !ok {
			if e.Remove {
				return value
			}
			fields = map[string]any{}
		}
		if e.Remove && len(path) == 1 {
			delete(fields, at)
		} else if _, there := fields[at]; there || !e.Remove {
			fields[at] = e.on(fields[at], path[1:])
		}
		return fields
	case int:
		list, _ := value.([]any)
		switch {
		case at < len(list) && e.Remove && len(path) == 1:
			return slices.Delete(list, at, at+1)
		case at < len(list):
			list[at] = e.on(list[at], path[1:])
		case !e.Remove:
			list = append(list, e.on(nil, path[1:]))
		}
		return list
	}
	return value
}

// Smallest finds the fewest edits with which an object passes, trying at most so many objects. It prefers a value to
// taking a field away. If there are too many to try them all, it is what is left of whole without what is not needed.
func Smallest(groups [][]Edit, whole []Edit, tries int, passes func(edits []Edit) bool) []Edit {
	best := reduced(whole, passes)
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b []Edit) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(removes(a), removes(b)))
	})
	var choose func(from, left int, chosen []Edit) []Edit
	choose = func(from, left int, chosen []Edit) []Edit {
		if left == 0 {
			if tries--; tries >= 0 && passes(chosen) {
				return chosen
			}
			return nil
		}
		for i := from; i < len(groups) && len(groups[i]) <= left && tries > 0; i++ {
			if overlap(chosen, groups[i]) {
				continue
			}
			if found := choose(i+1, left-len(groups[i]), append(slices.Clip(chosen), groups[i]...)); found != nil {
				return found
			}
		}
		return nil
	}
	most := len(best)
	if best == nil {
		for _, g := range groups {
			most += len(g)
		}
	}
	for size := 1; size <= most && tries > 0; size++ {
		if found := choose(0, size, nil); found != nil {
			return found
		}
	}
	return best
}

// reduced leaves out every edit without which the others pass; nil if all of them do not.
func reduced(edits []Edit, passes func([]Edit) bool) []Edit {
	if len(edits) == 0 || !passes(edits) {
		return nil
	}
	for i := 0; i < len(edits); {
		if fewer := slices.Delete(slices.Clone(edits), i, i+1); len(fewer) > 0 && passes(fewer) {
			edits = fewer
		} else {
			i++
		}
	}
	return edits
}

func removes(edits []Edit) (n int) {
	for _, e := range edits {
		n += rank(e)
	}
	return n
}

// overlap reports whether two edits are of one field, or of a field and one within it.
func overlap(a, b []Edit) bool {
	for _, x := range a {
		for _, y := range b {
			n := min(len(x.Path), len(y.Path))
			if slices.Equal(x.Path[:n], y.Path[:n]) {
				return true
			}
		}
	}
	return false
}
