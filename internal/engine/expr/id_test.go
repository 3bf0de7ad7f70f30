package expr

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// CA-1: IDs are label keys with at most 63 characters after the slash; equal
// residuals have equal IDs, and others do not.
func TestConditionID(t *testing.T) {
	for _, prefix := range []string{"", "dev-volumes", "-.-", "ü", strings.Repeat("a", 200), strings.Repeat("-", 200), "a b/c", "x" + strings.Repeat(".", 60)} {
		id := ConditionID(prefix, Allow, `object.x == 1`)
		if errs := content.IsLabelKey(id); len(errs) > 0 {
			t.Errorf("%q: %s: %v", prefix, id, errs)
		}
		if domain, name, _ := strings.Cut(id, "/"); domain != IDDomain || len(name) > 63 {
			t.Errorf("%q: %s", prefix, id)
		}
	}
	base := ConditionID("role", Allow, "a")
	if !strings.HasPrefix(base, "policy.proviso.dev/role-") {
		t.Errorf("not readable: %s", base)
	}
	if ConditionID("role", Allow, "a") != base {
		t.Error("not stable")
	}
	seen := map[string]string{base: "base"}
	for name, id := range map[string]string{
		"effect": ConditionID("role", Deny, "a"), "text": ConditionID("role", Allow, "b"), "prefix": ConditionID("role2", Allow, "a"),
		"both": ConditionID("role", Deny, "b"), "no opinion": ConditionID("role", NoOpinion, "a"),
	} {
		if other, dup := seen[id]; dup {
			t.Errorf("%s has the ID of %s", name, other)
		}
		seen[id] = name
	}
}

func FuzzConditionID(f *testing.F) {
	f.Add("dev", "object.x == 1")
	f.Add("ﬀ--", "")
	f.Fuzz(func(t *testing.T, prefix, text string) {
		id := ConditionID(prefix, Deny, text)
		if errs := content.IsLabelKey(id); len(errs) > 0 {
			t.Errorf("%q: %s: %v", prefix, id, errs)
		}
	})
}
