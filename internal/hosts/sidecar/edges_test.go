package sidecar

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// bounded gives the binding of a role an interval.
func bounded(text, role string, from, until time.Time) string {
	ref := "roleRef: {namespace: team, name: " + role + "}\n"
	return strings.Replace(text, ref, ref+"notBefore: "+from.UTC().Format(time.RFC3339)+"\nnotAfter: "+until.UTC().Format(time.RFC3339)+"\n", 1)
}

// TM-1, TM-3, TM-7, TM-16: beside a stock server, too, a binding counts from its beginning and until its end, a deny as
// well as an allow, and a request that was authorized before the end is not admitted after it. Bindings that have ended
// stay, and do nothing.
func TestBindingsBeginAndEndBeside(t *testing.T) {
	var w *world
	var from, until time.Time
	for lead := 2 * time.Second; w == nil || time.Until(from) < time.Second/2; lead *= 2 { // on a slow machine
		from = time.Now().Truncate(time.Second).Add(lead)
		until = from.Add(2 * time.Second)
		w = newWorld(t, bounded(bounded(policy, "small", from, until), "careful", from, until))
	}
	create, get, forbidden := asked("anna", "create", "configmaps", "team", ""), asked("anna", "get", "pods", "team", "a"), asked("rob", "update", "secrets", "team", "a")
	small := admitted(create, "ConfigMap", nil, map[string]string{"size": "small"})
	decides := func(a authorizer.AttributesRecord) authorizer.Decision {
		t.Helper()
		answer, err := w.decider.Access(t.Context(), "c", a)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Decision
	}
	at := func(what string, when time.Time, allowed, denied bool) {
		t.Helper()
		time.Sleep(time.Until(when)) // the clock is the machine's
		for _, a := range []authorizer.AttributesRecord{create, get} {
			if got := decides(a); (got == authorizer.DecisionAllow) != allowed {
				t.Errorf("%s: %s %s is decided as %v", what, a.Verb, a.Resource, got)
			}
		}
		if got := decides(forbidden); (got == authorizer.DecisionDeny) != denied {
			t.Errorf("%s: what a deny is about is decided as %v", what, got)
		}
	}
	at("before the beginning", time.Now(), false, false)
	at("from the beginning on", from, true, true)
	if err := w.decider.Admit(t.Context(), small); err != nil {
		t.Errorf("while it counts: %v", err)
	}
	at("from the end on", until, false, false)
	if err := w.decider.Admit(t.Context(), small); err == nil {
		t.Error("a request that was authorized before the end is admitted after it")
	}
}
