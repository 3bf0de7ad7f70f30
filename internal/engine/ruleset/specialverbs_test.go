package ruleset

import (
	"slices"
	"strings"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// special are verbs that hand out more than they look like, and what names each.
var special = map[string][]string{
	"escalate": {"escalate"}, "bind": {"bind"}, "deny": {"deny"}, "approve": {"approve"},
	"unsafe-delete-ignore-read-errors": {"unsafe-delete-ignore-read-errors"},
	"impersonate":                      {"impersonate", "impersonate*"},
	"impersonate:user-info":            {"impersonate:user-info", "impersonate*"},
	"impersonate-on:user-info:list":    {"impersonate-on:user-info:list", "impersonate*"},
	"granular:labels":                  {"granular:labels", "granular:*"},
	"granular:label(example.com)":      {"granular:label(example.com)", "granular:*"},
	"reveal:example.com/secretData":    {"reveal:example.com/secretData", "reveal:*"},
}

// PO-26: by brute force over every list that is made of a star, negations and common verbs: an allow never covers a
// special verb that it does not name, whatever the kinds are, and does cover it if it is named and not negated. A deny
// covers it unless it is negated.
func TestSpecialVerbsAreNamed(t *testing.T) {
	parts := []string{"*", "-get", "-delete", "-bind", "-impersonate*", "-granular:*", "get", "update"}
	kinds := [][]string{{"*"}, {"pods"}, {"-nodes"}, {"Pod", "deployments.apps"}}
	for set := 1; set < 1<<len(parts); set++ {
		var verbs []string
		for i, part := range parts {
			if set&(1<<i) != 0 {
				verbs = append(verbs, part)
			}
		}
		every := slices.Contains(verbs, "*") || !slices.ContainsFunc(verbs, func(v string) bool { return !strings.HasPrefix(v, "-") })
		for verb, names := range special {
			negated := slices.ContainsFunc(verbs, func(v string) bool {
				name := strings.TrimPrefix(v, "-")
				return name != v && (name == verb || strings.HasSuffix(name, "*") && strings.HasPrefix(verb, strings.TrimSuffix(name, "*")))
			})
			for _, kinds := range kinds {
				asked := func(deny bool, verbs []string) Match {
					return one(t, policyv1alpha1.PolicyRule{Deny: deny, Verbs: verbs, ResourceKinds: kinds}, someKinds, verb, "", "pods", "", "")
				}
				if asked(false, verbs).Allow.Found() {
					t.Fatalf("%q of %q allows %s", verbs, kinds, verb)
				}
				if got := asked(true, verbs).Deny.Found(); got != (every && !negated) {
					t.Fatalf("%q of %q denies %s: %v", verbs, kinds, verb, got)
				}
			}
			for _, name := range names {
				if got := one(t, policyv1alpha1.PolicyRule{Verbs: append(slices.Clone(verbs), name), ResourceKinds: []string{"pods"}}, someKinds, verb, "", "pods", "", "").Allow.Found(); got == negated {
					t.Fatalf("%q and %s: allows %s: %v", verbs, name, verb, got)
				}
			}
		}
	}
}

// PO-26: access.proviso.dev is guarded: a name without a group does not reach it.
func TestAccessIsGuarded(t *testing.T) {
	for kind, want := range map[string]bool{"accessrules": false, "AccessRule": false, "accessrules.access.proviso.dev": true, "*": true} {
		rule := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{kind}}
		if got := one(t, rule, someKinds, "create", "access.proviso.dev", "accessrules", "", "").Allow.Found(); got != want {
			t.Errorf("%s: allowed %v, want %v", kind, got, want)
		}
	}
}
