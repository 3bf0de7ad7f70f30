package rulecondition

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Compiler compiles the conditions of rules.
type Compiler struct {
	// CEL compiles where and when.
	CEL *expr.Compiler
	// Cache keeps compiled conditions of stored rules, and lets CompileRule defer compiling to the first use of the
	// condition. With nil, every call compiles immediately.
	Cache *expr.Cache
	// Types finds the schemas that a rule's expressions must type-check against; nil leaves objects unchecked.
	Types Types
}

// Types finds schemas.
type Types interface {
	// Of returns the schemas that an expression of a rule must type-check against.
	Of(rule *policyv1alpha1.PolicyRule, kind expr.Kind) []*expr.Type
}

// TypesFunc is a function that implements Types.
type TypesFunc func(rule *policyv1alpha1.PolicyRule, kind expr.Kind) []*expr.Type

// Of implements Types.
func (f TypesFunc) Of(rule *policyv1alpha1.PolicyRule, kind expr.Kind) []*expr.Type {
	return f(rule, kind)
}

// Rule compiles everything about a rule that depends on the object. Errors name the field and, for expressions, line
// and column. For a rule without a condition it returns nil.
func (c *Compiler) Rule(rule *policyv1alpha1.PolicyRule, path *field.Path, stored bool) (expr.Condition, field.ErrorList) {
	var errs field.ErrorList
	var all []expr.Condition
	add := func(cond expr.Condition, err *field.Error) {
		switch {
		case err != nil:
			errs = append(errs, err)
		case cond != nil:
			all = append(all, cond)
		}
	}
	for _, key := range sortedKeys(rule.Unrecognized) {
		errs = append(errs, field.Forbidden(path.Child(key), "unknown field"))
	}
	if r := rule.AttributeRestrictions; r != nil {
		at := path.Child("attributeRestrictions")
		for _, key := range sortedKeys(r.Unrecognized) {
			errs = append(errs, field.NotSupported(at.Child(key), key, []string{"fieldsMutable", "labelsContain", "sameNodeRestriction"}))
		}
		if r.FieldsMutable != nil {
			add(newFieldsMutable(r.FieldsMutable, rule.APIVersion, at.Child("fieldsMutable")))
		}
		if r.LabelsContain != nil {
			add(newLabelsContain(r.LabelsContain, at.Child("labelsContain")))
		}
		if r.SameNodeRestriction {
			add(sameNode{}, nil)
		}
	}
	add(c.expression(rule.Where, expr.Where, rule, path.Child("where"), stored))
	add(c.expression(rule.When, expr.When, rule, path.Child("when"), stored))
	if err := expr.FitTogether(rule.Where, rule.When); err != nil && !stored {
		errs = append(errs, field.Invalid(path.Child("when"), abridge(rule.When), err.Error()))
	}
	switch {
	case len(errs) > 0:
		return nil, errs
	case len(all) == 0:
		return nil, nil
	case len(all) == 1:
		return all[0], nil
	}
	return expr.All(all...), nil
}

func (c *Compiler) expression(source string, kind expr.Kind, rule *policyv1alpha1.PolicyRule, path *field.Path, stored bool) (expr.Condition, *field.Error) {
	if source == "" {
		return nil, nil
	}
	opts := expr.Options{Kind: kind, APIVersion: rule.APIVersion, Stored: stored}
	if c.Types != nil && !stored {
		opts.Types = c.Types.Of(rule, kind)
	}
	var program *expr.Program
	var issues expr.Issues
	if stored && c.Cache != nil {
		program, issues = c.Cache.Stored(source, kind, rule.APIVersion).Program()
	} else {
		program, issues = c.CEL.Compile(source, opts)
	}
	if len(issues) > 0 {
		return nil, field.Invalid(path, abridge(source), issues.Error())
	}
	if kind == expr.Where {
		program = program.Aimed(ruleset.NamedConnections(rule))
	}
	return program, nil
}

// abridge keeps an error message readable when the expression is long.
func abridge(source string) string {
	const limit = 200
	if len(source) <= limit {
		return source
	}
	return strings.ToValidUTF8(source[:limit], "") + fmt.Sprintf("… (%d bytes)", len(source))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
