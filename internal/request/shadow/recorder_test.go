package shadow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/shadowrule"
)

func rule(name, where string) shadowrule.Rule {
	return shadowrule.OfRole(ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: "n", Name: name}, 0, &policyv1alpha1.PolicyRule{Deny: true, Where: where, Enforcement: policyv1alpha1.EnforcementShadow})
}

// TR-6: a flood of flips, of rules and of long names is bounded; the newest flips stay.
func TestRecorderIsBounded(t *testing.T) {
	r := New(time.Now)
	long := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: strings.Repeat("ü", 1<<20)}, Verb: "get", ResourceRequest: true, Resource: "pods", Name: strings.Repeat("x", 1<<20)}
	for i := range 2000 {
		r.Note(t.Context(), rule(fmt.Sprint("r", i), ""), long, Allow, Deny)
	}
	for i := range 100 {
		r.Note(t.Context(), rule("r0", ""), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: fmt.Sprint("u", i)}}, Allow, Deny)
	}
	all := r.List()
	if len(all) != maxRules {
		t.Errorf("%d rules are kept", len(all))
	}
	for _, one := range all {
		if len(one.Flips) > maxFlips {
			t.Errorf("%d flips are kept", len(one.Flips))
		}
		for _, f := range one.Flips {
			if len(f.User)+len(f.Name) > 2*maxText+8 {
				t.Errorf("%d bytes of names are kept", len(f.User)+len(f.Name))
			}
		}
	}
	if first := all[0]; first.Name != "r0" || first.WouldDeny != 101 || first.Flips[0].User != "u99" || first.Flips[maxFlips-1].User != fmt.Sprint("u", 100-maxFlips) {
		t.Errorf("%s: %d flips, the newest %+v", first.Name, first.WouldDeny, first.Flips[0])
	}
}

// TR-6: a rule that changes is counted again, one that is gone is forgotten, and the others go on.
func TestRecorderKeeps(t *testing.T) {
	now := time.Unix(1000, 0)
	r := New(func() time.Time { return now })
	r.Keep([]shadowrule.Rule{rule("a", "x"), rule("b", "x"), rule("c", "x")})
	for _, name := range []string{"a", "b", "c"} {
		r.Note(t.Context(), rule(name, "x"), nil, Allow, Deny)
		r.Note(t.Context(), rule(name, "x"), nil, Allow, Allow)
	}
	now = time.Unix(2000, 0)
	r.Keep([]shadowrule.Rule{rule("a", "x"), rule("b", "y")})
	all := r.List()
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	if a := all[0]; a.WouldDeny != 1 || a.Applied != 2 || !a.Since.Equal(time.Unix(1000, 0)) {
		t.Errorf("the same rule: %+v", a)
	}
	if b := all[1]; b.WouldDeny != 0 || b.Applied != 0 || len(b.Flips) != 0 || !b.Since.Equal(now) {
		t.Errorf("a rule that has changed: %+v", b)
	}
}

// TR-6: a warning names what its refusal would name, and of what would allow nothing.
func TestWarnings(t *testing.T) {
	deny := rule("volumes", "")
	deny.Description = "only class dev"
	if got := warningOf(deny, reading("get"), Deny); !strings.Contains(got, `"volumes"`) || !strings.Contains(got, "only class dev") {
		t.Errorf("%q", got)
	}
	allow := deny
	allow.Denies = false
	if got := warningOf(allow, reading("get"), Allow); got == "" || strings.Contains(got, "volumes") || strings.Contains(got, "class") {
		t.Errorf("%q", got)
	}
	if got := warningOf(allow, reading("get"), Undecided); got != "" {
		t.Errorf("%q", got)
	}
	// HF-1: what hides a field refuses no read.
	deny.Hides = true
	if got := warningOf(deny, reading("get"), Deny); !strings.Contains(got, "less in it") || !strings.Contains(got, `"volumes"`) {
		t.Errorf("%q", got)
	}
	if got := warningOf(deny, reading("update"), Deny); !strings.Contains(got, "denied") {
		t.Errorf("%q", got)
	}
}

func reading(verb string) authorizer.Attributes {
	return authorizer.AttributesRecord{Verb: verb, APIVersion: "v1", Resource: "secrets", ResourceRequest: true}
}
