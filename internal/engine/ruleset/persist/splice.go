package persist

import "slices"

// Splice returns an ordered list with some elements removed and others added; both are ordered, too. It copies the
// stretches in between in bulk: with a hundred thousand bindings of one role, adding one costs little more than copying
// memory.
func Splice[T any](list, remove, add []T, compare func(a, b T) int) []T {
	out := make([]T, 0, max(0, len(list)+len(add)-len(remove)))
	for len(remove) > 0 || len(add) > 0 {
		takeOut := len(add) == 0 || len(remove) > 0 && compare(remove[0], add[0]) <= 0
		edit := add
		if takeOut {
			edit = remove
		}
		i, found := slices.BinarySearchFunc(list, edit[0], compare)
		out = append(out, list[:i]...)
		list = list[i:]
		if !takeOut {
			out, add = append(out, add[0]), add[1:]
			continue
		}
		if found {
			list = list[1:]
		}
		remove = remove[1:]
	}
	return append(out, list...)
}
