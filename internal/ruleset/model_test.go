package ruleset

import (
	"testing"

	"proviso.dev/proviso/internal/ruleset/refmodel"
	"proviso.dev/proviso/test/law"
)

// PO-1, PO-2, PO-5, PO-7, PO-9: on random worlds and requests the index sees exactly the rules, denies and conditions that
// the reference model finds by walking everything, and decides the same.
func TestIndexEqualsModel(t *testing.T) {
	outcomes := map[Outcome]int{}
	law.Rounds(t, 400, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 60 {
			r := pick.Request()
			requireSame(t, ix, w, r, "seed")
			outcomes[ix.Decide(r).Outcome]++
		}
		return 60
	})
	for _, o := range []Outcome{Never, Sometimes, Always} {
		if outcomes[o] < 400 {
			law.TooFew(t, "outcomes %v: too few to prove anything", outcomes)
		}
	}
}

// FuzzIndexEqualsModel is the same law, with the fuzzer choosing the world.
func FuzzIndexEqualsModel(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, choose func(int) int) {
		pick := refmodel.Pick(choose)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 8 {
			requireSame(t, ix, w, pick.Request(), "fuzz")
		}
	})
}
