package persist

import "slices"

// longestRun bounds what a change of a roster copies, in addition to the list of its runs.
const longestRun = 256

// Roster is an immutable ordered list: Apply returns another one, which shares all runs that are not affected. A
// hundred thousand elements are four hundred runs, so adding one does not copy the rest.
type Roster[T any] struct {
	// first is the whole list while it is short, as it nearly always is.
	first []T
	// more are further runs, none of them empty.
	more [][]T
}

// Empty reports whether nothing is in it.
func (r Roster[T]) Empty() bool { return len(r.first) == 0 }

// Len is the number of elements.
func (r Roster[T]) Len() int {
	n := len(r.first)
	for _, run := range r.more {
		n += len(run)
	}
	return n
}

// Runs returns the number of runs, and Run one of them, in order: for callers that must not allocate.
func (r Roster[T]) Runs() int {
	if r.Empty() {
		return 0
	}
	return 1 + len(r.more)
}

// Run is one of the runs; it must not be changed.
func (r Roster[T]) Run(i int) []T {
	if i == 0 {
		return r.first
	}
	return r.more[i-1]
}

// Each visits the elements in order.
func (r Roster[T]) Each(visit func(T)) {
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
func (r Roster[T]) runs() [][]T {
	if r.Empty() {
		return nil
	}
	return append(append(make([][]T, 0, 1+len(r.more)), r.first), r.more...)
}

// Apply returns the roster with some elements removed and others added. Both are ordered by compare, like the roster.
func (r Roster[T]) Apply(remove, add []T, compare func(a, b T) int) Roster[T] {
	if len(r.more) == 0 {
		return rosterOf(cut(nil, Splice(r.first, remove, add, compare)))
	}
	runs := r.runs()
	out := make([][]T, 0, len(runs)+2)
	for len(add) > 0 || len(remove) > 0 {
		next := least(add, remove, compare)
		// The element is, or belongs, in the run before the first one that begins after it.
		i, found := slices.BinarySearchFunc(runs, next, func(run []T, e T) int { return compare(run[0], e) })
		if !found && i > 0 {
			i--
		}
		out, runs = append(out, runs[:i]...), runs[i:]
		adds, removes := len(add), len(remove) // the last run takes all that is left
		if len(runs) > 1 {
			adds, removes = before(add, runs[1][0], compare), before(remove, runs[1][0], compare)
		}
		out = cut(out, Splice(runs[0], remove[:removes], add[:adds], compare))
		add, remove, runs = add[adds:], remove[removes:], runs[1:]
	}
	return rosterOf(append(out, runs...))
}

func rosterOf[T any](runs [][]T) Roster[T] {
	if len(runs) == 0 {
		return Roster[T]{}
	}
	return Roster[T]{first: runs[0], more: slices.Clip(runs[1:])}
}

// cut appends a list as runs of about the same length. A run that has become short is merged with the one before it.
func cut[T any](out [][]T, list []T) [][]T {
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

// before is how many of an ordered list come before an element.
func before[T any](list []T, e T, compare func(a, b T) int) int {
	i, _ := slices.BinarySearchFunc(list, e, compare)
	return i
}

// least is the first of two ordered lists, of which one is not empty.
func least[T any](a, b []T, compare func(a, b T) int) T {
	if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
		return a[0]
	}
	return b[0]
}
