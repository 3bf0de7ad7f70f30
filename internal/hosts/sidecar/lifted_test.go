package sidecar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// rights are what mia has on config maps, for one verb each.
var rights = map[string]func(verb string) (rule, rbac string){
	"nothing":             func(string) (string, string) { return "", "" },
	"allowed":             func(v string) (string, string) { return miaRule(v, ""), "" },
	"if small":            func(v string) (string, string) { return miaRule(v, "", "small"), "" },
	"if tiny":             func(v string) (string, string) { return miaRule(v, "", "tiny"), "" },
	"denied":              func(v string) (string, string) { return miaRule(v, "deny: true, "), "" },
	"by RBAC":             func(v string) (string, string) { return "", v },
	"RBAC, denied":        func(v string) (string, string) { return miaRule(v, "deny: true, "), v },
	"RBAC, denied if big": func(v string) (string, string) { return miaRule(v, "deny: true, ", "big"), v },
	"denied if big":       func(v string) (string, string) { return miaRule(v, "deny: true, ", "big"), "" },
}

func miaRule(verb, deny string, size ...string) string {
	when := ""
	if len(size) > 0 {
		when = fmt.Sprintf(`, when: 'oldObject.metadata.?labels.size.orValue("") == "%s"'`, size[0])
	}
	return fmt.Sprintf("- {%sverbs: [%s], resourceKinds: [configmaps]%s}\n", deny, verb, when)
}

// miaPolicy gives her a right to update and one to patch.
func miaPolicy(update, patch string) string {
	text, verbs, rules := "", []string{"frobnicate"}, "- {verbs: [frobnicate], resourceKinds: [configmaps]}\n"
	for verb, right := range map[string]string{"update": update, "patch": patch} {
		rule, rbac := rights[right](verb)
		rules += rule
		if rbac != "" {
			verbs = append(verbs, rbac)
		}
	}
	text += "apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: mia, namespace: team}\nrules:\n" + rules
	text += "---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: mia, namespace: team}\nroleRef: {namespace: team, name: mia}\nuserNames: [mia]\n"
	text += "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: mia, namespace: team}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [" + strings.Join(verbs, ", ") + "]}]\n"
	text += "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: mia, namespace: team}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: mia}\nsubjects: [{kind: User, name: mia, apiGroup: rbac.authorization.k8s.io}]\n"
	return text
}

// SC-18: mia's request passes authorization under a condition, and waits while the policy changes, in any way that her
// rights can: denies and conditions come and go, of Policy and of RBAC, for her verb and for the other one. It is
// stored only if a server would let the very same request pass under the new policy. While nothing changes, nothing is
// refused that meets its condition.
func TestNoChangeLiftsACondition(t *testing.T) {
	now := time.Now()
	granted := webhooks.NewGranted(func() time.Time { return now })
	worlds := map[[2]string]*world{}
	for update := range rights {
		for patch := range rights {
			worlds[[2]string{update, patch}] = newWorldAfter(t, miaPolicy(update, patch), granted)
		}
	}
	tried, stored := 0, 0
	for was, before := range worlds {
		for is, after := range worlds {
			for i, verb := range []string{"update", "patch"} {
				now = now.Add(time.Hour) // nothing is remembered
				a := asked("mia", verb, "configmaps", "team", "a")
				if !before.kernel.Gate.Decide(requestctx.With(t.Context(), before.kernel.Store.Current()), a).Hangs() {
					continue
				}
				answer, err := before.decider.Access(t.Context(), "c", a)
				if err != nil {
					t.Fatal(err)
				}
				if answer.Decision == authorizer.DecisionNoOpinion {
					answer.Decision, _, _ = authorize.NewRBAC(before.kernel.Store).Authorize(t.Context(), a)
				}
				if answer.Decision != authorizer.DecisionAllow {
					continue
				}
				for _, size := range []string{"small", "big"} {
					labels := map[string]string{"size": size}
					review := admitted(a, "ConfigMap", labels, labels)
					tried++
					err := after.decider.Admit(t.Context(), review)
					if err == nil {
						stored++
					}
					if err == nil && !after.inProcess(t, a, review) {
						t.Errorf("%s of a %s one is stored: update and patch were %v and are %v", verb, size, was, is)
					}
					if err != nil && was == is && before.inProcess(t, a, review) && was[1-i] == "nothing" {
						t.Errorf("%s of a %s one is refused, and nothing has changed from %v: %v", verb, size, was, err)
					}
				}
			}
		}
	}
	t.Logf("%d requests, %d stored", tried, stored)
	if stored == 0 || tried < 1000 {
		t.Error("the test decides nothing")
	}
}

// SC-18: whom another authorizer allows, and a deny concerns only under a condition, is held to a deny that came
// meanwhile, and to nothing else.
func TestDenyThatCameMeanwhileHoldsForOthers(t *testing.T) {
	granted := webhooks.NewGranted(time.Now)
	before := newWorldAfter(t, miaPolicy("denied if big", "nothing"), granted)
	a := asked("mia", "update", "configmaps", "team", "a")
	small := map[string]string{"size": "small"}
	review := admitted(a, "ConfigMap", small, small)
	if answer, err := before.decider.Access(t.Context(), "c", a); err != nil || answer.Decision != authorizer.DecisionNoOpinion {
		t.Fatalf("%v, %v", answer, err)
	}
	for is, want := range map[[2]string]bool{{"denied", "nothing"}: false, {"denied if big", "nothing"}: true, {"nothing", "nothing"}: true} {
		if err := newWorldAfter(t, miaPolicy(is[0], is[1]), granted).decider.Admit(t.Context(), review); (err == nil) != want {
			t.Errorf("%v: %v", is, err)
		}
	}
}
