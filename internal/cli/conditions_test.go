package cli

import (
	"strings"
	"testing"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// PO-14, CA-14: an unconditional allow beside a conditional deny reads "unless", and not "if true"; a condition of its
// own is still shown.
func TestAllowBesideAConditionalDeny(t *testing.T) {
	deny, allow, own := `has(object.spec.x)`, "true", `object.spec.y == 1`
	subject := func(user string, conditions ...authz.Condition) authz.ConditionalSubject {
		return authz.ConditionalSubject{UserName: user, Conditions: conditions}
	}
	var table strings.Builder
	err := whoCanTable(&table, authz.ResourceAccessReviewStatus{Conditional: []authz.ConditionalSubject{
		subject("edgar", authz.Condition{Effect: authz.EffectDeny, Condition: deny}, authz.Condition{Effect: authz.EffectAllow, Condition: allow}),
		subject("hubert", authz.Condition{Effect: authz.EffectDeny, Condition: deny}, authz.Condition{Effect: authz.EffectAllow, Condition: own}),
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := "SUBJECT   NAME     CAN      CONDITION\n" +
		"User      edgar    unless   has(object.spec.x)\n" +
		"User      hubert   unless   has(object.spec.x)\n" +
		"                   if       object.spec.y == 1\n"
	if table.String() != want {
		t.Errorf("who-can shows\n%s\nwant\n%s", table.String(), want)
	}

	var answer strings.Builder
	status := reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{{AuthorizerName: "policy-namespace",
		Conditions: []reviewv1.SubjectAccessReviewCondition{{ID: "p/d", Effect: reviewv1.EffectDeny, Condition: deny}, {ID: "p/a", Effect: reviewv1.EffectAllow, Condition: allow, Description: "allowed by a role"}}}}}
	if err := canITable(&answer, status); err != nil {
		t.Fatal(err)
	}
	if got := answer.String(); strings.Contains(got, "if true") || !strings.Contains(got, "Conditional:\n  refused if has(object.spec.x)\n") || !strings.Contains(got, "  otherwise allowed\n      allowed by a role (policy-namespace, p/a)\n") {
		t.Errorf("can-i shows\n%s", got)
	}
}
