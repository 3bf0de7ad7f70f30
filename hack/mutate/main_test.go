package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSites(t *testing.T) {
	const text = `package p

import "k8s.io/x/authorizer"

func f(a, b bool) authorizer.Decision {
	if a && !b {
		return authorizer.DecisionAllow
	}
	return authorizer.DecisionDeny
}
`
	sites, err := sitesOf("p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sites {
		got = append(got, s.after)
		if bytes.Equal(s.mutant, []byte(text)) {
			t.Errorf("%s changes nothing", s)
		}
	}
	want := []string{
		"if !(a && !b) {", "if a || !b {", "if a && b {", "return authorizer.DecisionNoOpinion", "return authorizer.DecisionAllow",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("mutants:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnswersNeedAReason(t *testing.T) {
	left := site{file: "./p.go", before: "f()"} // a call that is left out
	if !answers("p.go: f() ->  # it logs")[left.String()] {
		t.Errorf("%q cannot be answered", left)
	}
	known := answers("# a comment\np.go: if a -> if !a # b is checked before\np.go: x -> y\np.go: v -> w # \n")
	if len(known) != 1 || !known["p.go: if a -> if !a"] {
		t.Errorf("answers: %v", known)
	}
}
