package validate

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// NI-6: one write has so many bytes of conditions compiled at most, and no more are compiled to find that out. A role
// can have more, written in several steps.
func TestNewConditionsOfAWriteAreBounded(t *testing.T) {
	roleOf := func(n int) *authz.Role {
		r := &authz.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "hammer"}}
		for i := range n {
			r.Rules = append(r.Rules, policy.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, When: fmt.Sprintf("%1024d", i)})
		}
		return r
	}
	compiled := 0
	check := func(policy.PolicyRule, *field.Path) field.ErrorList { compiled++; return nil }
	if errs := Role(roleOf(64), nil, "master", check); len(errs) > 0 || compiled != 64 {
		t.Errorf("at the limit: %v, %d compiled", errs, compiled)
	}
	compiled = 0
	errs := Role(roleOf(65), nil, "master", check)
	if len(errs) != 1 || compiled != 0 || !strings.Contains(errs[0].Error(), "66560 bytes, the limit of one write is 65536: write the role in several steps") {
		t.Errorf("over the limit: %v, %d compiled", errs, compiled)
	}
	if errs := Role(roleOf(100), roleOf(64).Rules, "master", check); len(errs) > 0 || compiled != 36 {
		t.Errorf("in two steps: %v, %d compiled", errs, compiled)
	}
	compiled = 0
	changed := roleOf(100)
	for i := range changed.Rules {
		changed.Rules[i].Verbs = []string{"list"} // compiles all conditions again, so it counts
	}
	if errs := Role(changed, roleOf(100).Rules, "master", check); len(errs) != 1 || compiled != 0 {
		t.Errorf("changed rules: %v, %d compiled", errs, compiled)
	}
}
