package ruleset

import "slices"

// longestRun bounds what a change of a roster copies, beside the list of its runs.
const longestRun = 256

// roster is an ordered list of bindings that never changes: apply returns another one, which shares with it all but the runs that
// are concerned. The hundred thousand bindings of one role are four hundred runs, so that adding one does not copy the rest.
type roster struct {
	// first is the whole list as long as it is short, which it nearly always is.
	first []*binding
	// more are further runs, none of them empty.
	more [][]*binding
}

func (r roster) empty() bool { return len(r.first) == 0 }

// each visits the bindings in order.
func (r roster) each(visit func(*binding)) {
	for _, b := range r.first {
		visit(b)
	}
	for _, run := range r.more {
		for _, b := range run {
			visit(b)
		}
	}
}

// runs lists all of them; the receiver keeps no reference to the result.
func (r roster) runs() [][]*binding {
	if r.empty() {
		return nil
	}
	return append(append(make([][]*binding, 0, 1+len(r.more)), r.first), r.more...)
}

// apply returns the roster with bindings added and removed.
func (r roster) apply(ops []grantOp) roster {
	add, remove := sortedOps(ops)
	if len(r.more) == 0 {
		return rosterOf(cut(nil, splice(r.first, remove, add, (*binding).compare)))
	}
	runs := r.runs()
	out := make([][]*binding, 0, len(runs)+2)
	for len(add) > 0 || len(remove) > 0 {
		next := least(add, remove)
		// The run before the first one that begins after the binding is where it is or belongs.
		i, found := slices.BinarySearchFunc(runs, next, func(run []*binding, b *binding) int { return run[0].compare(b) })
		if !found && i > 0 {
			i--
		}
		out, runs = append(out, runs[:i]...), runs[i:]
		adds, removes := len(add), len(remove) // the last run takes all that is left
		if len(runs) > 1 {
			adds, removes = before(add, runs[1][0]), before(remove, runs[1][0])
		}
		out = cut(out, splice(runs[0], remove[:removes], add[:adds], (*binding).compare))
		add, remove, runs = add[adds:], remove[removes:], runs[1:]
	}
	return rosterOf(append(out, runs...))
}

func rosterOf(runs [][]*binding) roster {
	if len(runs) == 0 {
		return roster{}
	}
	return roster{first: runs[0], more: slices.Clip(runs[1:])}
}

// cut appends a list as runs of about the same length. A run that has become short joins the one before it.
func cut(out [][]*binding, list []*binding) [][]*binding {
	if last := len(out) - 1; last >= 0 && len(out[last])+len(list) <= longestRun/2 {
		list = slices.Concat(out[last], list)
		out = out[:last]
	}
	for pieces := (len(list) + longestRun - 1) / longestRun; pieces > 0; pieces-- {
		n := (len(list) + pieces - 1) / pieces
		out, list = append(out, list[:n:n]), list[n:]
	}
	return out
}

// before is how many of an ordered list come before a binding.
func before(list []*binding, b *binding) int {
	i, _ := slices.BinarySearchFunc(list, b, (*binding).compare)
	return i
}

// least is the first of two ordered lists, of which one is not empty.
func least(a, b []*binding) *binding {
	if len(b) == 0 || len(a) > 0 && a[0].compare(b[0]) <= 0 {
		return a[0]
	}
	return b[0]
}
