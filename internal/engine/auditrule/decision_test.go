package auditrule

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// endings are the ways in which a request can end, as its event tells them.
var endings = map[string]struct {
	annotations map[string]string
	code        int32
}{
	"allowed":                   {map[string]string{filterAnnotation: "allow"}, 201},
	"allowed on a condition":    {map[string]string{filterAnnotation: "allow", pendingAnnotation: "p", outcomeAnnotation: "Allow"}, 201},
	"denied":                    {map[string]string{filterAnnotation: "forbid", outcomeAnnotation: "Deny"}, 403},
	"not allowed":               {map[string]string{filterAnnotation: "forbid", outcomeAnnotation: "NoOpinion"}, 403},
	"denied by a condition":     {map[string]string{filterAnnotation: "allow", pendingAnnotation: "p", outcomeAnnotation: "Deny"}, 403},
	"condition not met":         {map[string]string{filterAnnotation: "allow", pendingAnnotation: "p", outcomeAnnotation: "NoOpinion"}, 403},
	"invalid before conditions": {map[string]string{filterAnnotation: "allow", pendingAnnotation: "p"}, 422},
	"first of several allowed":  {map[string]string{filterAnnotation: "allow", pendingAnnotation: "p", outcomeAnnotation: "Allow"}, 403},
	"forbidden, no more known":  {map[string]string{filterAnnotation: "forbid"}, 403},
	"not authenticated":         {nil, 401},
}

func eventOf(ending string) *auditinternal.Event {
	e := endings[ending]
	return &auditinternal.Event{
		Stage: auditinternal.StageResponseComplete, Verb: "create", RequestURI: "/api/v1/namespaces/n/pods", Annotations: e.annotations,
		ObjectRef: &auditinternal.ObjectReference{Resource: "pods", Namespace: "n", APIVersion: "v1"}, ResponseStatus: &metav1.Status{Code: e.code},
	}
}

func indexOf(byDefault v1alpha1.Level, rules ...v1alpha1.Rule) (*Index, []*v1alpha1.AuditClass) {
	var classes []*v1alpha1.AuditClass
	policy := v1alpha1.Policy{Level: byDefault}
	levels := []v1alpha1.Level{v1alpha1.LevelRequestResponse, v1alpha1.LevelNone, v1alpha1.LevelMetadata}
	for i, rule := range rules {
		name := string(rune('a' + i))
		classes = append(classes, &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{rule}}})
		policy.Rules = append(policy.Rules, v1alpha1.PolicyRule{Level: levels[i], WithAuditClass: name})
	}
	return Compile([]Source{{Name: "s", Policy: policy, Receives: true}}, classes), classes
}

// DA-15: rules select by the final decision; what is not known is recorded, and what the filter refused has no more
// than metadata.
func TestDecisions(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		rule    v1alpha1.Rule
		matches map[string]Level
	}{
		"denies": {v1alpha1.Rule{Decisions: []v1alpha1.Decision{"Deny"}}, map[string]Level{
			"denied": Metadata, "denied by a condition": RequestResponse, "invalid before conditions": RequestResponse,
			"first of several allowed": RequestResponse, "forbidden, no more known": Metadata}},
		"everything refused": {v1alpha1.Rule{Decisions: []v1alpha1.Decision{"Deny", "NoOpinion"}}, map[string]Level{
			"denied": Metadata, "not allowed": Metadata, "denied by a condition": RequestResponse, "condition not met": RequestResponse,
			"invalid before conditions": RequestResponse, "first of several allowed": RequestResponse, "forbidden, no more known": Metadata}},
		"conditional": {v1alpha1.Rule{Conditional: &yes}, map[string]Level{
			"allowed on a condition": RequestResponse, "denied by a condition": RequestResponse, "condition not met": RequestResponse,
			"invalid before conditions": RequestResponse, "first of several allowed": RequestResponse}},
		"allowed, no condition": {v1alpha1.Rule{Decisions: []v1alpha1.Decision{"Allow"}, Conditional: &no}, map[string]Level{"allowed": RequestResponse}},
	} {
		ix, classes := indexOf(v1alpha1.LevelNone, tc.rule)
		for ending := range endings {
			if got := ix.EventLevels(eventOf(ending), nil)[0]; got != tc.matches[ending] {
				t.Errorf("%s, %s: %s, want %s", name, ending, got, tc.matches[ending])
			}
		}
		policy := v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: v1alpha1.LevelMetadata, WithAuditClass: "a"}}}
		if _, err := ToPolicy(&policy, classes); err == nil || !strings.Contains(err.Error(), "decisions and conditional have no equivalent") {
			t.Errorf("%s: converted, %v", name, err)
		}
	}
}

// DA-15: until the end a request is kept with what it may deserve, and never with less; a rule that takes a request out
// does so only for sure.
func TestDecisionsAreNotKnownBefore(t *testing.T) {
	attrs := authorizer.AttributesRecord{Verb: "create", Resource: "pods", APIVersion: "v1", Namespace: "n", ResourceRequest: true}
	denied := v1alpha1.Rule{Decisions: []v1alpha1.Decision{"Deny"}}
	allowed := v1alpha1.Rule{Decisions: []v1alpha1.Decision{"Allow"}}
	all := [][]v1alpha1.Rule{{denied}, {denied, allowed}, {denied, allowed, {}}, {allowed, denied}}
	for _, rules := range all {
		for _, byDefault := range []v1alpha1.Level{v1alpha1.LevelNone, v1alpha1.LevelRequest} {
			ix, _ := indexOf(byDefault, rules...)
			before := ix.Max(attrs)
			if got := ix.Levels(attrs, nil)[0]; got != before {
				t.Errorf("%v: one sink gets %s, all of them %s", rules, got, before)
			}
			for ending := range endings {
				if after := ix.EventLevels(eventOf(ending), nil)[0]; after > before {
					t.Errorf("%v: %s is sent at %s, and was kept at %s", rules, ending, after, before)
				}
			}
		}
	}
	ix, _ := indexOf(v1alpha1.LevelRequest, denied, allowed) // level None for what is allowed
	for ending, want := range map[string]Level{"allowed": None, "allowed on a condition": None, "first of several allowed": RequestResponse, "not allowed": Request} {
		if got := ix.EventLevels(eventOf(ending), nil)[0]; got != want {
			t.Errorf("%s: %s, want %s", ending, got, want)
		}
	}
}
