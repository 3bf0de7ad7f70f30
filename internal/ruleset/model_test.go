package ruleset

import (
	"testing"

	"proviso.dev/proviso/internal/ruleset/refmodel"
)

// PO-1, PO-2, PO-5, PO-7, PO-9: on random worlds and requests the index sees exactly the rules, denies and conditions that
// the reference model finds by walking everything, and decides the same.
func TestIndexEqualsModel(t *testing.T) {
	outcomes := map[Outcome]int{}
	for seed := range int64(rounds(400)) {
		pick := picker(seed)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 60 {
			r := pick.Request()
			requireSame(t, ix, w, r, "seed")
			outcomes[ix.Decide(r).Outcome]++
		}
	}
	for _, o := range []Outcome{Never, Sometimes, Always} {
		if outcomes[o] < 400 {
			t.Errorf("outcomes %v: too few to prove anything", outcomes)
		}
	}
}

// FuzzIndexEqualsModel is the same law, with the fuzzer choosing the world.
func FuzzIndexEqualsModel(f *testing.F) {
	for _, seed := range []string{"", "policy", "\x00\x01\x02\x03\x04\x05\x06\x07", "deny everything but the first"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pick := pickBytes(data)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 8 {
			requireSame(t, ix, w, pick.Request(), "fuzz")
		}
	})
}

// pickBytes draws from the fuzzer's bytes, and from their number when they run out.
func pickBytes(data []byte) refmodel.Pick {
	state := uint64(len(data))
	i := 0
	return func(n int) int {
		b := byte(0)
		if i < len(data) {
			b = data[i]
			i++
		}
		state = state*6364136223846793005 + 1442695040888963407 + uint64(b)
		return int((state >> 33) % uint64(n))
	}
}
