package sidecar

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
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

// TM-2, TM-16: beside a stock server, a condition on the time is decided at admission as it is at authorization. If the
// time is not known, an allow does not hold, and a deny does.
func TestConditionsOnTheTimeBeside(t *testing.T) {
	const hours = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: hours, namespace: team}
rules:
- {verbs: [create], resourceKinds: [configmaps], when: 'request.time < timestamp("EDGE")'}
- {deny: true, verbs: [create], resourceKinds: [secrets], when: 'request.time >= timestamp("EDGE")'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: hours, namespace: team}
roleRef: {namespace: team, name: hours}
userNames: [anna]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: team}
rules: [{apiGroups: [""], resources: [secrets], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}
subjects: [{kind: User, name: anna, apiGroup: rbac.authorization.k8s.io}]
`
	edge := time.Date(2026, 11, 19, 17, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		clock   stoppedClock
		allowed bool
	}{
		{"before the edge", stoppedClock{edge.Add(-time.Second)}, true},
		{"from the edge on", stoppedClock{edge}, false},
		{"at an unknown time", stoppedClock{}, false},
	} {
		w := newWorldBy(t, strings.ReplaceAll(hours, "EDGE", edge.Format(time.RFC3339)), webhooks.NewGranted(time.Now), c.clock)
		for resource, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"} {
			create := asked("anna", "create", resource, "team", "")
			answer, err := w.decider.Access(t.Context(), "c", create)
			if err != nil {
				t.Fatal(err)
			}
			// RBAC of the stock server allows secrets, so only a deny counts here.
			if passes := answer.Decision == authorizer.DecisionAllow || resource == "secrets" && answer.Decision != authorizer.DecisionDeny; passes != c.allowed && !c.clock.at.IsZero() {
				t.Errorf("%s: authorization of %s says %v", c.name, resource, answer)
			}
			if err := w.decider.Admit(t.Context(), admitted(create, kind, nil, nil)); (err == nil) != c.allowed {
				t.Errorf("%s: admission of %s says %v", c.name, resource, err)
			}
		}
	}
}

// stoppedClock shows one instant; the zero value does not know the time.
type stoppedClock struct{ at time.Time }

// Now implements snapshot.Clock.
func (c stoppedClock) Now() (time.Time, bool) { return c.at, !c.at.IsZero() }
