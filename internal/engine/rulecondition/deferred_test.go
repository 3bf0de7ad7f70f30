package rulecondition

import (
	"errors"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// PO-21: with a cache, the index is made without compiling anything; who needs a condition first compiles it, once.
func TestCompileRuleCompilesNothing(t *testing.T) {
	c := compiler(t)
	c.Cache = expr.NewCache(c.CEL)
	role := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: "hammer", Name: "r"}
	rule := &policyv1alpha1.PolicyRule{Where: "resource.a == 1", When: "request.user == 'edgar'", Description: "why",
		AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"app"}}}
	got, err := c.CompileRule(role, 3, rule)
	if err != nil {
		t.Fatal(err)
	}
	if pending := c.Cache.Pending(); len(pending) != 2 {
		t.Fatalf("%d of 2 expressions are left to be compiled", len(pending))
	}
	compiled := got.(*Compiled).Ready()
	if len(c.Cache.Pending()) != 0 || compiled.Condition == nil || compiled != got.(*Compiled).Ready() {
		t.Error("not compiled when it was needed, or more than once")
	}
	eager := &Compiler{CEL: c.CEL}
	want, err := eager.CompileRule(role, 3, rule)
	if err != nil || want.(*Compiled).ID() != compiled.ID() || compiled.Description != "why" || compiled.Condition.Type() != want.(*Compiled).Condition.Type() {
		t.Errorf("compiled later: %+v, compiled at once: %+v, %v", compiled, want, err)
	}
}

// SV-8: a condition that does not compile is found when it is needed: an allow grants nothing, a deny denies without
// any part of its condition. Once that is known, the index is told.
func TestBrokenWhenNeeded(t *testing.T) {
	c := compiler(t)
	c.Cache = expr.NewCache(c.CEL)
	role := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: "hammer", Name: "r"}
	rule := &policyv1alpha1.PolicyRule{When: "object.a ==", AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"app"}}}
	got, err := c.CompileRule(role, 0, rule)
	if err != nil || c.Broken(rule) {
		t.Fatalf("known before it is compiled: %v", err)
	}
	condition := got.(*Compiled).Ready().Condition
	req, data := &expr.Request{User: "edgar"}, expr.NewData(expr.DataConfig{Operation: "CREATE"})
	if v := condition.Decide(req, expr.Allow).Truth(); v != expr.Failed {
		t.Errorf("allow: %v", v)
	}
	_, err = condition.Evaluate(t.Context(), req, expr.Allow, data)
	if e, ok := errors.AsType[*expr.EvalError](err); !ok || e.Reason != expr.ReasonUncompiled {
		t.Errorf("allow: %v", err)
	}
	if v := condition.Decide(req, expr.Deny).Truth(); v != expr.True {
		t.Errorf("deny: %v", v)
	}
	if holds, err := condition.Evaluate(t.Context(), req, expr.Deny, data); !holds || err != nil {
		t.Errorf("deny: %v, %v", holds, err)
	}
	if !c.Broken(rule) || c.Broken(&policyv1alpha1.PolicyRule{When: "true"}) {
		t.Error("what is known is not told")
	}
	if _, err := c.CompileRule(role, 0, rule); err == nil {
		t.Error("compiled again as if nothing were known")
	}
}
