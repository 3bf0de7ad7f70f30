package sidecar

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// SC-18: what is kept of questions that are passed on is bounded by their length, in whichever part the text is. A
// question that is too long is not asked, and nothing allows it.
func TestLongQuestionsAreNotPassedOn(t *testing.T) {
	b := brief{authorizerfactory.NewAlwaysAllowAuthorizer()}
	ordinary := asked("anna", "create", "configmaps", strings.Repeat("n", 63), strings.Repeat("a", 253))
	if got, _, _ := b.Authorize(t.Context(), ordinary); got != authorizer.DecisionAllow {
		t.Errorf("an ordinary question: %v", got)
	}
	for what, set := range map[string]func(*authorizer.AttributesRecord, string){
		"namespace": func(a *authorizer.AttributesRecord, s string) { a.Namespace = s }, "name": func(a *authorizer.AttributesRecord, s string) { a.Name = s },
		"resource": func(a *authorizer.AttributesRecord, s string) { a.Resource = s }, "subresource": func(a *authorizer.AttributesRecord, s string) { a.Subresource = s },
		"verb": func(a *authorizer.AttributesRecord, s string) { a.Verb = s }, "path": func(a *authorizer.AttributesRecord, s string) { a.Path = s },
	} {
		long := asked("anna", "create", "configmaps", "team", "a")
		set(&long, strings.Repeat("x", maxAsked+1))
		if got, _, _ := b.Authorize(t.Context(), long); got != authorizer.DecisionNoOpinion {
			t.Errorf("a long %s: %v", what, got)
		}
		if b.ConditionsAwareAuthorize(t.Context(), long).IsAllow() {
			t.Errorf("a long %s, with conditions, is allowed", what)
		}
	}
}
