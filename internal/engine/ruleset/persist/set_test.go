package persist

import (
	"math/rand/v2"
	"testing"
)

type named struct{ key, val int }

func (n *named) HasKey(k int) bool { return n.key == k }

func spread(k int) uint64 { return (uint64(k) + 1) * 0x9e3779b97f4a7c15 }

// Every version keeps what it had, with and without growing, and with members that are looked for in the same place.
func TestSetVersions(t *testing.T) {
	for name, hash := range map[string]func(int) uint64{
		"spread":    spread,
		"colliding": func(k int) uint64 { return spread(k) &^ (setSlots - 1) }, // every one wants the first place of its node
		"equal":     func(k int) uint64 { return spread(k / 3) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			type version struct {
				set  Set[int, *named]
				want map[int]int
			}
			var versions []version
			var s Set[int, *named]
			model := map[int]int{}
			o := new(Owner)
			for i := range 20_000 {
				if r.IntN(3) == 0 {
					o = new(Owner)
				}
				if k := r.IntN(1500); r.IntN(3) > 0 {
					s.Put(o, hash(k), k, &named{k, i})
					model[k] = i
				} else {
					s.Remove(o, hash(k), k)
					delete(model, k)
				}
				if i%500 == 0 {
					want := map[int]int{}
					for k, v := range model {
						want[k] = v
					}
					versions = append(versions, version{s, want})
					o = new(Owner) // what is published is not changed any more
				}
			}
			for i, v := range versions {
				if v.set.Len() != len(v.want) {
					t.Fatalf("version %d has %d members, want %d", i, v.set.Len(), len(v.want))
				}
				seen := 0
				v.set.Each(func(m *named) bool {
					seen++
					if v.want[m.key] != m.val {
						t.Fatalf("version %d has %v", i, m)
					}
					return true
				})
				if seen != len(v.want) {
					t.Fatalf("version %d: visited %d of %d", i, seen, len(v.want))
				}
				for k := range 1500 {
					want, there := v.want[k]
					got, ok := v.set.Get(hash(k), k)
					if ok != there || ok && got.val != want {
						t.Fatalf("version %d: %d is %v %v, want %d %v", i, k, got, ok, want, there)
					}
				}
			}
		})
	}
}

// A set for which room was made does not grow, wherever the members go.
func TestSetReserve(t *testing.T) {
	for _, n := range []int{0, 1, 168, 169, 5000, 300_000} {
		var s Set[int, *named]
		o := new(Owner)
		s.Reserve(o, n)
		reserved := len(s.nodes)
		for i := range n {
			s.Put(o, spread(i), i, &named{key: i})
		}
		if s.Len() != n || reserved > 0 && len(s.nodes) != reserved {
			t.Errorf("%d members, want %d; %d nodes, reserved %d", s.Len(), n, len(s.nodes), reserved)
		}
	}
	var s Set[int, *named]
	if _, found := s.Get(1, 1); found {
		t.Error("found something in nothing")
	}
	s.Remove(new(Owner), 1, 1)
	visited := 0
	for i := range 500 {
		s.Put(new(Owner), spread(i), i, &named{key: i})
	}
	s.Each(func(*named) bool { visited++; return visited < 3 })
	if visited != 3 {
		t.Errorf("visited %d, and was told to stop after 3", visited)
	}
}

// What two sets do not share is told apart: all that differs, and little else.
func TestSetApart(t *testing.T) {
	var before Set[int, *named]
	o := new(Owner)
	for i := range 20_000 {
		before.Put(o, spread(i), i, &named{i, 0})
	}
	after := before
	o = new(Owner)
	after.Put(o, spread(7), 7, &named{7, 1})
	after.Remove(o, spread(8), 8)
	after.Put(o, spread(20_000), 20_000, &named{20_000, 1})
	was, is := map[int]int{}, map[int]int{}
	before.EachApart(&after, func(m *named) { was[m.key] = m.val })
	after.EachApart(&before, func(m *named) { is[m.key] = m.val })
	if _, there := was[8]; !there || is[7] != 1 || is[20_000] != 1 || len(is) > 3*setSlots || len(was) > 3*setSlots {
		t.Errorf("%d before, %d after: %v", len(was), len(is), is[7])
	}
	if _, there := is[8]; there {
		t.Error("what was removed is still there")
	}
}
