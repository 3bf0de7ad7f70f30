package persist

import (
	"cmp"
	"math/rand"
	"slices"
	"testing"
	"unsafe"
)

func list(r Roster[int]) []int {
	var all []int
	r.Each(func(e int) { all = append(all, e) })
	return all
}

// A roster is a sorted list whatever is added and removed in whatever portions, its runs stay short, and the one before
// stays as it was: a snapshot in use must not change.
func TestRosterIsASortedList(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	const names = 3000
	var r Roster[int]
	model := map[int]bool{}
	for round := range 400 {
		var add, remove []int
		used := map[int]bool{}
		portion := []int{1, 3, 50, 700}[rnd.Intn(4)]
		growing := round%100 < 60
		for range portion {
			i := rnd.Intn(names)
			if used[i] {
				continue
			}
			used[i] = true
			switch missing := !model[i]; {
			case missing != growing && rnd.Intn(10) != 0:
			case missing:
				add, model[i] = append(add, i), true
			default:
				remove = append(remove, i)
				delete(model, i)
			}
		}
		slices.Sort(add)
		slices.Sort(remove)
		before := list(r)
		next := r.Apply(remove, add, cmp.Compare[int])
		if got := list(r); !slices.Equal(got, before) {
			t.Fatalf("round %d changed the roster that it began with", round)
		}
		var want []int
		for i := range names {
			if model[i] {
				want = append(want, i)
			}
		}
		if got := list(next); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %d elements, want %d", round, len(got), len(want))
		}
		var runs []int
		for i := range next.Runs() {
			runs = append(runs, next.Run(i)...)
		}
		if !slices.Equal(runs, want) || next.Len() != len(want) {
			t.Fatalf("round %d: the runs have %d elements, and Len says %d, want %d", round, len(runs), next.Len(), len(want))
		}
		if next.Empty() != (len(want) == 0) || len(next.first) > longestRun {
			t.Fatalf("round %d: empty %v, first run %d", round, next.Empty(), len(next.first))
		}
		for _, run := range next.more {
			if len(run) == 0 || len(run) > longestRun {
				t.Fatalf("round %d: a run of %d", round, len(run))
			}
		}
		if limit := 2 + 8*len(want)/longestRun; 1+len(next.more) > limit {
			t.Fatalf("round %d: %d elements are in %d runs", round, len(want), 1+len(next.more))
		}
		r = next
	}
}

// One element more does not copy the others: all runs but one are the same memory.
func TestRosterSharesItsRuns(t *testing.T) {
	var even []int
	for i := range 100_000 {
		even = append(even, 2*i)
	}
	old := Roster[int]{}.Apply(nil, even, cmp.Compare[int])
	next := old.Apply(nil, []int{100_001}, cmp.Compare[int])
	shared := map[*int]bool{}
	for _, run := range old.runs() {
		shared[unsafe.SliceData(run)] = true
	}
	fresh := 0
	for _, run := range next.runs() {
		if !shared[unsafe.SliceData(run)] {
			fresh += len(run)
		}
	}
	if fresh == 0 || fresh > 2*longestRun {
		t.Errorf("%d of 100001 elements were copied", fresh)
	}
}
