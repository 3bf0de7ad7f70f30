package answers

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// enough is how many policies have to have one for which a suggestion replaces a binding.
const enough = 10

// NI-8: what the tools say is what the server does, on random policies.
func TestAnswers(t *testing.T) {
	o := newOracle(t)
	rounds, from, limit := 12, uint64(1), 30*time.Second
	if text := os.Getenv("ANSWERS_CASES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds, limit = n, 24*time.Hour
	}
	if text := os.Getenv("ANSWERS_FROM"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		from = n
	}
	most := 5
	if text := os.Getenv("ANSWERS_FINDS"); text != "" {
		most, _ = strconv.Atoi(text)
	}
	begin, ran, compared, remedied, replaced, failed := time.Now(), 0, 0, 0, 0, 0
	for seed := from; seed < from+uint64(rounds) && time.Since(begin) < limit; seed++ {
		x := &trial{oracle: o, TB: t, subjects: subjects(), requests: requests()}
		c := draw(seed)
		if seed == from {
			c.Policy += "\n---\n" + remediable
		}
		x.run(c, seed)
		ran++
		compared, remedied, replaced = compared+x.compared, remedied+x.remedied, replaced+x.replaced
		said := map[string]int{}
		for i, f := range x.finds {
			if i == 0 {
				failed++
				t.Errorf("seed %d (ANSWERS_FROM=%[1]d ANSWERS_CASES=1)\n%s\n=== change\n%s\n=== delete %v", seed, c.Policy, c.Change, c.Delete)
			}
			if said[f.tool]++; said[f.tool] <= 3 {
				t.Errorf("%s: %.1500s", f.tool, f.text)
			}
		}
		if failed >= most {
			t.Fatal("more are not looked for")
		}
	}
	if remedied == 0 && compared > 0 {
		t.Error("no change of an object was named: nothing is proven of them")
	}
	if replaced == 0 && ran >= enough {
		t.Error("no suggestion replaced a binding: nothing is proven of them")
	}
	t.Logf("%d answers compared, among them %d changes of objects, %d bindings replaced by suggestions, in %s", compared, remedied, replaced, time.Since(begin).Round(time.Millisecond))
}
