package auditrule

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// largeClass is a class of so many clauses.
func largeClass(clauses int) []*v1alpha1.AuditClass {
	class := &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	for i := range clauses {
		class.Spec.Rules = append(class.Spec.Rules, v1alpha1.Rule{Verbs: []string{fmt.Sprint("verb-", i)}})
	}
	return []*v1alpha1.AuditClass{class}
}

// DA-12, DA-17: a policy that compiles to too much is not used, and says why; one at the bound is.
func TestPoliciesThatCompileToTooMuch(t *testing.T) {
	const each = 64
	classes := largeClass(each)
	for name, tc := range map[string]struct {
		namespace string
		rules     int
		active    bool
	}{
		"of a namespace":           {"team", maxLocalClauses / each, true},
		"of a namespace, too much": {"team", maxLocalClauses/each + 1, false},
		"of the cluster":           {"", maxClauses / each, true},
		"of the cluster, too much": {"", maxClauses/each + 1, false},
	} {
		src := Source{Name: "s", Namespace: tc.namespace, Receives: true}
		for range tc.rules {
			src.Policy.Rules = append(src.Policy.Rules, v1alpha1.PolicyRule{Level: v1alpha1.LevelMetadata, WithAuditClass: "large"})
		}
		small := Source{Name: "small", Receives: true, Policy: v1alpha1.Policy{Level: v1alpha1.LevelMetadata}}
		sinks := Compile([]Source{src, small}, classes).Sinks()
		if got := sinks[0]; got.Active != tc.active || tc.active == (got.Reason == v1alpha1.ReasonInvalid) || !tc.active && !strings.Contains(got.Message, "fewer or smaller classes") {
			t.Errorf("%s: %+v", name, got)
		}
		if !sinks[1].Active {
			t.Errorf("%s: another sink is %s", name, sinks[1].Message)
		}
	}
}

// DA-4: of many missing classes the first are named, and the rest are counted, each once.
func TestManyMissingClasses(t *testing.T) {
	src := Source{Name: "s", Receives: true}
	for i := range 2 * (shownMissing + 4) {
		src.Policy.Rules = append(src.Policy.Rules, v1alpha1.PolicyRule{Level: v1alpha1.LevelMetadata, WithAuditClass: fmt.Sprintf("c%d", i/2)})
	}
	got := Compile([]Source{src}, nil).Sinks()[0]
	if len(got.Missing) != shownMissing || !strings.Contains(got.Message, "c15 and 4 more;") || got.Reason != v1alpha1.ReasonClassesMissing {
		t.Errorf("%+v", got)
	}
}
