package sidecar

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
)

// SC-6, SC-13: a client that is slow on purpose is authorized, and loses its right before its object is admitted. The
// policy of admission does not know of the condition any more; the request does not pass as one that somebody else
// allowed. Who was allowed nothing by us, or is allowed it now, is not concerned.
func TestConditionThatIsGoneIsNotMet(t *testing.T) {
	now := time.Now()
	granted := webhooks.NewGranted(func() time.Time { return now })
	before := newWorldAfter(t, policy, granted)
	unbound := strings.Replace(policy, "userNames: [anna]", "userNames: [nobody]", 1)
	after, allowed := newWorldAfter(t, unbound, granted), newWorldAfter(t, strings.ReplaceAll(unbound, "name: rob", "name: anna"), granted)
	create := asked("anna", "create", "configmaps", "team", "")
	big := admitted(create, "ConfigMap", nil, map[string]string{"size": "big"})
	if err := after.decider.Admit(t.Context(), big); err != nil {
		t.Errorf("somebody else allowed it, and it is refused: %v", err)
	}
	if answer, err := before.decider.Access(t.Context(), "c", create); err != nil || answer.Decision != authorizer.DecisionAllow {
		t.Fatalf("the right under a condition: %v, %v", answer, err)
	}
	if err := after.decider.Admit(t.Context(), big); err == nil || !strings.Contains(err.Error(), "the rule is gone") {
		t.Errorf("a condition that was not met passes when its rule is gone: %v", err)
	}
	if err := allowed.decider.Admit(t.Context(), big); err != nil {
		t.Errorf("RBAC allows it by now: %v", err)
	}
	other := admitted(asked("abac", "create", "configmaps", "team", ""), "ConfigMap", nil, nil)
	if err := after.decider.Admit(t.Context(), other); err != nil {
		t.Errorf("who was allowed nothing under a condition: %v", err)
	}
	now = now.Add(4 * time.Minute)
	if err := after.decider.Admit(t.Context(), big); err == nil {
		t.Error("it passes while the request may still be on its way")
	}
	now = now.Add(11 * time.Minute)
	if err := after.decider.Admit(t.Context(), big); err != nil {
		t.Errorf("it is refused for ever: %v", err)
	}
}

// SC-6: who may only patch, under a condition, patches: that there is no rule for updates does not look as if one were
// gone.
func TestOneVerbUnderAConditionIsEnough(t *testing.T) {
	for _, verb := range []string{"patch", "update"} {
		rule := `- {verbs: [` + verb + `], resourceKinds: [pods], when: 'oldObject.metadata.?labels.size.orValue("") == "small"'}` + "\n"
		w := newWorld(t, strings.Replace(policy, "- {verbs: [get], resourceKinds: [configmaps, pods]}\n", rule, 1))
		a := asked("anna", verb, "pods", "team", "a")
		if answer, err := w.decider.Access(t.Context(), "c", a); err != nil || answer.Decision != authorizer.DecisionAllow {
			t.Fatalf("%s: %v, %v", verb, answer, err)
		}
		for size, want := range map[string]bool{"small": true, "big": false} {
			labels := map[string]string{"size": size}
			if err := w.decider.Admit(t.Context(), admitted(a, "Pod", labels, labels)); (err == nil) != want {
				t.Errorf("%s of a %s one: %v", verb, size, err)
			}
		}
	}
}

// SC-8, SC-13: a policy that has not been heard of for too long decides nothing any more: whoever it allows something
// may have lost it.
func TestStalePolicyDecidesNothing(t *testing.T) {
	w := newWorld(t, policy)
	a := asked("anna", "get", "configmaps", "team", "a")
	create := asked("anna", "create", "configmaps", "team", "")
	small := map[string]string{"size": "small"}
	for _, old := range []string{"", "nothing was heard for a minute", ""} {
		w.old = old
		answer, err := w.decider.Access(t.Context(), "c", a)
		if err != nil || (answer.Decision == authorizer.DecisionAllow) != (old == "") || old != "" && (answer.Decision != authorizer.DecisionDeny || answer.Reason != old) {
			t.Errorf("authorization, %q: %v, %v", old, answer, err)
		}
		if err := w.decider.Admit(t.Context(), admitted(create, "ConfigMap", nil, small)); (err == nil) != (old == "") || err != nil && !strings.Contains(err.Error(), old) {
			t.Errorf("admission, %q: %v", old, err)
		}
		// The canary still proves what it proves.
		canary := asked("proviso:canary", "patch", "configmaps", "proviso-system", "canary-x")
		if answer, err := w.decider.Access(t.Context(), "c", canary); err != nil || answer.Decision != authorizer.DecisionNoOpinion {
			t.Errorf("the canary, %q: %v, %v", old, answer, err)
		}
	}
}
