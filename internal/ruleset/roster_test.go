package ruleset

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"unsafe"
)

func rosterList(r roster) []string {
	var all []string
	r.each(func(b *binding) { all = append(all, b.ref.Name) })
	return all
}

// A roster is a sorted list whatever is added and removed in whatever portions, its runs stay short, and the one before stays as it
// was: a snapshot in use must not change.
func TestRosterIsASortedList(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	const names = 3000
	bindings := make([]*binding, names)
	for i := range bindings {
		bindings[i] = &binding{ref: BindingRef{Name: fmt.Sprintf("b%05d", i)}}
	}
	var r roster
	model := map[int]bool{}
	for round := range 400 {
		var ops []grantOp
		used := map[int]bool{}
		portion := []int{1, 3, 50, 700}[rnd.Intn(4)]
		growing := round%100 < 60
		for range portion {
			i := rnd.Intn(names)
			if used[i] {
				continue
			}
			used[i] = true
			if add := !model[i]; add == growing || rnd.Intn(10) == 0 {
				ops = append(ops, grantOp{b: bindings[i], add: add})
				if add {
					model[i] = true
				} else {
					delete(model, i)
				}
			}
		}
		before := rosterList(r)
		next := r.apply(ops)
		if got := rosterList(r); !slices.Equal(got, before) {
			t.Fatalf("round %d changed the roster that it began with", round)
		}
		var want []string
		for i := range names {
			if model[i] {
				want = append(want, bindings[i].ref.Name)
			}
		}
		if got := rosterList(next); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %d bindings, want %d", round, len(got), len(want))
		}
		if next.empty() != (len(want) == 0) || len(next.first) > longestRun {
			t.Fatalf("round %d: empty %v, first run %d", round, next.empty(), len(next.first))
		}
		for _, run := range next.more {
			if len(run) == 0 || len(run) > longestRun {
				t.Fatalf("round %d: a run of %d", round, len(run))
			}
		}
		if limit := 2 + 8*len(want)/longestRun; 1+len(next.more) > limit {
			t.Fatalf("round %d: %d bindings are in %d runs", round, len(want), 1+len(next.more))
		}
		r = next
	}
}

// One binding more does not copy the others: all runs but one are the same memory.
func TestRosterSharesItsRuns(t *testing.T) {
	var ops []grantOp
	for i := range 100_000 {
		ops = append(ops, grantOp{b: &binding{ref: BindingRef{Name: fmt.Sprintf("b%06d", 2*i)}}, add: true})
	}
	old := roster{}.apply(ops)
	next := old.apply([]grantOp{{b: &binding{ref: BindingRef{Name: "b100001"}}, add: true}})
	shared := map[**binding]bool{}
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
		t.Errorf("%d of 100001 bindings were copied", fresh)
	}
}
