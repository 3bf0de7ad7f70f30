package accessreview

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/reviewtest"
)

// A random condition is its own truth: its text is what it comes to.
var truths = []string{"true", "false", "error"}

func randomSet(r *rand.Rand) authorizer.ConditionsAwareDecision {
	var sets [3][]authorizer.Condition
	for i := range 1 + r.IntN(4) {
		effect := r.IntN(3)
		sets[effect] = append(sets[effect], authorizer.GenericCondition{
			ID: fmt.Sprintf("example.com/c%d", i), Type: TypeCEL, Condition: truths[r.IntN(3)], Description: "in words"})
	}
	return authorizer.ConditionsAwareDecisionConditionsMap(sets[0], sets[1], sets[2])
}

func randomDecision(r *rand.Rand, depth int) authorizer.ConditionsAwareDecision {
	var err error
	if r.IntN(4) == 0 {
		err = errors.New("trouble")
	}
	switch n := r.IntN(10); {
	case n == 0:
		return authorizer.ConditionsAwareDecisionAllow("yes", err)
	case n == 1:
		return authorizer.ConditionsAwareDecisionDeny("no", err)
	case n < 5:
		return authorizer.ConditionsAwareDecisionNoOpinion([]string{"", "hm"}[r.IntN(2)], err)
	case n == 5 && depth > 0:
		var u authorizer.ConditionsAwareDecisionUnion
		for i := range 1 + r.IntN(3) {
			u.Add(fmt.Sprintf("part%d", i), randomDecision(r, depth-1))
		}
		return u.ToDecision()
	}
	return randomSet(r)
}

// naive evaluates conditions by the letter of CA-2, for sets in whatever form.
func naive(denies, noOpinions, allows []string, failOpen bool) authorizer.Decision {
	has := func(list []string, value string) bool {
		for _, v := range list {
			if v == value {
				return true
			}
		}
		return false
	}
	switch {
	case has(denies, "true"):
		return authorizer.DecisionDeny
	case has(denies, "error") && failOpen:
		return authorizer.DecisionNoOpinion
	case has(denies, "error"):
		return authorizer.DecisionDeny
	case has(noOpinions, "true") || has(noOpinions, "error"):
		return authorizer.DecisionNoOpinion
	case has(allows, "true"):
		return authorizer.DecisionAllow
	}
	return authorizer.DecisionNoOpinion
}

// naiveDecision is what an authorizer's decision comes to with the object at hand.
func naiveDecision(d authorizer.ConditionsAwareDecision, failOpen bool) authorizer.Decision {
	switch {
	case d.IsAllow():
		return authorizer.DecisionAllow
	case d.IsNoOpinion():
		return authorizer.DecisionNoOpinion
	case d.IsConditionsMap():
		var texts [3][]string
		for c := range d.ConditionsMap().DenyConditions() {
			texts[0] = append(texts[0], c.GetCondition())
		}
		for c := range d.ConditionsMap().NoOpinionConditions() {
			texts[1] = append(texts[1], c.GetCondition())
		}
		for c := range d.ConditionsMap().AllowConditions() {
			texts[2] = append(texts[2], c.GetCondition())
		}
		return naive(texts[0], texts[1], texts[2], failOpen)
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			if got := naiveDecision(sub, failOpen); got != authorizer.DecisionNoOpinion {
				return got
			}
		}
		return authorizer.DecisionNoOpinion
	}
	return authorizer.DecisionDeny
}

// readStatus is what a client makes of an answer that it evaluates by itself.
func readStatus(s *reviewv1.SubjectAccessReviewStatus) authorizer.Decision {
	switch {
	case s.Allowed:
		return authorizer.DecisionAllow
	case s.Denied:
		return authorizer.DecisionDeny
	case s.ConditionalDecision != nil:
		return readTree(s.ConditionalDecision)
	}
	for _, set := range s.ConditionsChain {
		if got := readSet(set); got != authorizer.DecisionNoOpinion {
			return got
		}
	}
	return authorizer.DecisionNoOpinion
}

func readSet(set reviewv1.SubjectAccessReviewConditionSet) authorizer.Decision {
	switch {
	case set.Allowed:
		return authorizer.DecisionAllow
	case set.Denied:
		return authorizer.DecisionDeny
	}
	texts := map[reviewv1.ConditionEffect][]string{}
	for _, c := range set.Conditions {
		texts[c.Effect] = append(texts[c.Effect], c.Condition)
	}
	return naive(texts[reviewv1.EffectDeny], texts[reviewv1.EffectNoOpinion], texts[reviewv1.EffectAllow],
		set.FailureMode == reviewv1.FailureModeNoOpinion)
}

func readTree(d *reviewv1.ConditionsAwareDecision) authorizer.Decision {
	texts := func(list []reviewv1.Condition) (all []string) {
		for _, c := range list {
			all = append(all, c.Condition)
		}
		return all
	}
	switch d.Type {
	case reviewv1.DecisionAllow:
		return authorizer.DecisionAllow
	case reviewv1.DecisionNoOpinion:
		return authorizer.DecisionNoOpinion
	case reviewv1.DecisionConditionsMap:
		return naive(texts(d.ConditionsMap.DenyConditions), texts(d.ConditionsMap.NoOpinionConditions), texts(d.ConditionsMap.AllowConditions), false)
	case reviewv1.DecisionUnion:
		for i := range d.Union {
			if got := readTree(&d.Union[i].Decision); got != authorizer.DecisionNoOpinion {
				return got
			}
		}
		return authorizer.DecisionNoOpinion
	}
	return authorizer.DecisionDeny
}

var write = authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "create", APIVersion: "v1", Resource: "pods", ResourceRequest: true}

// FuzzAnswer: whoever evaluates the conditions of an answer comes to exactly the decision that the authorizers would
// have come to with the object at hand, for every form of answer (CA-3, CA-14). Where the decision does not depend on
// the object, the answer is the one for callers that know no conditions.
func FuzzAnswer(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed)
	}
	f.Fuzz(checkAnswer)
}

// TestLaws checks more of the same without the fuzzer, which has to instrument all of Kubernetes first.
func TestLaws(t *testing.T) {
	n := uint64(5000)
	if runs, err := strconv.ParseUint(os.Getenv("PROVISO_LAW_RUNS"), 10, 32); err == nil && runs > 0 {
		n = runs
	}
	for seed := range n {
		checkAnswer(t, seed)
		checkSet(t, seed)
	}
}

func checkAnswer(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 14))
	links := make([]authorize.Link, 1+r.IntN(5))
	front := authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	if r.IntN(3) == 0 {
		front = authorizer.ConditionsAwareDecisionConditionsMap(
			[]authorizer.Condition{authorizer.GenericCondition{ID: "example.com/front", Condition: truths[r.IntN(2)]}}, nil, nil)
	}
	decided, stopped := authorizer.DecisionNoOpinion, authorizer.DecisionNoOpinion
	unconditionalChain, open := true, true
	for i := range links {
		d := randomDecision(r, 2)
		if i == 0 && r.IntN(2) == 0 {
			d = authorizer.ConditionsAwareDecisionNoOpinion("", nil)
		}
		links[i] = authorize.Link{Name: fmt.Sprintf("l%d", i), Authorizer: &reviewtest.Scripted{Decision: d}}
		if d.IsConditionsMap() && r.IntN(4) == 0 {
			links[i].FailOpen = true
		}
		unconditionalChain = unconditionalChain && d.IsUnconditional()
		comes := naiveDecision(d, links[i].FailOpen)
		if decided == authorizer.DecisionNoOpinion {
			decided = comes
		}
		if open && stopped == authorizer.DecisionNoOpinion {
			stopped = comes
		}
		open = open && !d.PossibleDecisions().Has(authorizer.DecisionAllow)
	}
	chain, err := authorize.NewChain(links...)
	if err != nil {
		t.Fatal(err)
	}
	a := &answerer{chain: chain, requests: unrestricted{}, sight: unrestricted{}, guards: guard{{Name: "front", Decision: front}}}
	// What stands in front only matters to somebody who could otherwise be allowed.
	blocked := naiveDecision(front, false) == authorizer.DecisionDeny
	stock := a.answer(t.Context(), write, unconditional)
	for _, want := range []form{chainForPeople, chainForMachines, tree} {
		got := a.answer(t.Context(), write, want)
		expected := decided
		if want == chainForMachines {
			expected = stopped
		}
		steps, _ := a.walk(t.Context(), write, want == chainForMachines)
		if blocked && (got.ConditionalDecision != nil || got.ConditionsChain != nil) && fold(steps).PossibleDecisions().Has(authorizer.DecisionAllow) {
			expected = authorizer.DecisionDeny
		}
		// A tree has no failure mode: a deny that fails can only be read as the stricter of the two.
		stricter := false
		for _, l := range links {
			stricter = stricter || l.FailOpen && want == tree
		}
		if read := readStatus(&got); read != expected && !(stricter && read == authorizer.DecisionDeny) {
			t.Fatalf("form %d: reads %s, want %s: %+v for %v", want, read, expected, got, links)
		}
		if got.Allowed && (decided != authorizer.DecisionAllow || blocked) {
			t.Fatalf("form %d: allowed, but comes to %s (blocked: %v)", want, decided, blocked)
		}
		if (got.ConditionsChain != nil || got.ConditionalDecision != nil) && (got.Allowed || got.Denied) {
			t.Fatalf("form %d: conditional and decided: %+v", want, got)
		}
		if unconditionalChain && front.IsNoOpinion() && (got.SubjectAccessReviewStatus != stock.SubjectAccessReviewStatus || got.ConditionsChain != nil || got.ConditionalDecision != nil) {
			t.Fatalf("form %d: answers %+v, a server without conditions %+v", want, got, stock)
		}
	}
	if stock.Allowed && (decided != authorizer.DecisionAllow || stock.ConditionsChain != nil) {
		t.Fatalf("without conditions: allowed, but comes to %s", decided)
	}
}

// FuzzSet: the server evaluates a set by the letter of CA-2.
func FuzzSet(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed)
	}
	f.Fuzz(checkSet)
}

func checkSet(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 15))
	set := reviewv1.SubjectAccessReviewConditionSet{FailureMode: []reviewv1.FailureMode{"", "Deny", "NoOpinion"}[r.IntN(3)]}
	texts := map[reviewv1.ConditionEffect][]string{}
	for i := range 1 + r.IntN(5) {
		effect, text, kind := effects[r.IntN(3)], truths[r.IntN(3)], TypeCEL
		if r.IntN(8) == 0 {
			text, kind = "error", []string{"", "example.com/other"}[r.IntN(2)]
		}
		texts[effect] = append(texts[effect], text)
		set.Conditions = append(set.Conditions, reviewv1.SubjectAccessReviewCondition{
			ID: fmt.Sprintf("example.com/c%d", i), Effect: effect, Type: kind, Condition: text})
	}
	want := naive(texts[reviewv1.EffectDeny], texts[reviewv1.EffectNoOpinion], texts[reviewv1.EffectAllow], set.FailureMode == reviewv1.FailureModeNoOpinion)
	got := (&conditionsREST{evaluate: spoken}).respond(t.Context(), &set, &conditionsData{})
	if got.Allowed != (want == authorizer.DecisionAllow) || got.Denied != (want == authorizer.DecisionDeny) {
		t.Fatalf("got %+v, want %s for %+v", got, want, set)
	}
}
