package ruleset

import (
	"testing"

	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// PO-1, PO-2, PO-5, PO-7, PO-9: on random worlds and requests the index sees exactly the rules, denies and conditions
// that the reference model finds by walking everything, and decides the same.
func TestIndexEqualsModel(t *testing.T) {
	certainties := map[Certainty]int{}
	law.Rounds(t, 400, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		ix := Build(inputOf(w))
		for range 60 {
			r := pick.Request()
			requireSame(t, ix, w, r, "seed")
			certainties[ix.Decide(r).Certainty]++
		}
		return 60
	})
	for _, o := range []Certainty{Never, Sometimes, Always} {
		if certainties[o] < 400 {
			law.TooFew(t, "certainties %v: too few to prove anything", certainties)
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
