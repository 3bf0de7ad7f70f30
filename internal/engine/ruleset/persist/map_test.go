package persist

import "testing"

// Every version keeps what it had, with and without growing.
func TestMapVersions(t *testing.T) {
	var versions []Map[int, int]
	var m Map[int, int]
	hash := func(k int) uint64 { return (uint64(k) + 1) * 0x9e3779b97f4a7c15 }
	for i := range 3000 {
		o := new(Owner)
		m.Set(o, hash(i), i, i)
		if i%3 == 0 {
			m.Set(o, hash(i/2), i/2, -i)
		}
		if i%7 == 0 {
			m.Remove(o, hash(i/3), i/3)
		}
		if i%100 == 0 {
			versions = append(versions, m)
		}
	}
	model := map[int]int{}
	for i := range 3000 {
		model[i] = i
		if i%3 == 0 {
			model[i/2] = -i
		}
		if i%7 == 0 {
			delete(model, i/3)
		}
		if i%100 != 0 {
			continue
		}
		v := versions[i/100]
		if v.Len() != len(model) {
			t.Fatalf("version %d has %d entries, want %d", i, v.Len(), len(model))
		}
		for k, want := range model {
			if got, ok := v.Get(hash(k), k); !ok || got != want {
				t.Fatalf("version %d: %d is %d %v, want %d", i, k, got, ok, want)
			}
		}
	}
}

// Each visits everything once, or until it is told to stop, in small maps and in large ones.
func TestMapEach(t *testing.T) {
	for _, n := range []int{0, 1, 5, 3000} {
		var m Map[int, int]
		for i := range n {
			m.Set(new(Owner), (uint64(i)+1)*0x9e3779b97f4a7c15, i, -i)
		}
		seen := map[int]int{}
		m.Each(func(k, v int) bool {
			seen[k] += v
			return true
		})
		if len(seen) != n {
			t.Errorf("visited %d of %d", len(seen), n)
		}
		for k, v := range seen {
			if v != -k {
				t.Errorf("%d of %d: %d", k, n, v)
			}
		}
		visited := 0
		m.Each(func(int, int) bool { visited++; return visited < 3 })
		if visited != min(n, 3) {
			t.Errorf("visited %d of %d, and was told to stop after 3", visited, n)
		}
	}
}
