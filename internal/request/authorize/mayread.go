package authorize

import (
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/engine/rulecondition"
)

// HiddenPlaces is the resource whose objects conditions on any other resource can see: namespaces.
var HiddenPlaces = fieldperm.Resource{Resource: "namespaces"}

// MayRead reports whether a condition of a rule may read a hidden field, in any place where it can be read, or depends
// on whether it changes.
func MayRead(rule *policyv1alpha1.PolicyRule, h fieldperm.Hidden) bool {
	looked := rulecondition.Reads(rule.AttributeRestrictions)
	return reads(rule, h, expr.MayRead) ||
		slices.ContainsFunc(hiddenfield.Places(h), func(p hiddenfield.Place) bool { return p.Path.OverlapsAny(looked) })
}

// MayReadNamespace is MayRead for a field of the namespace that the object is in.
func MayReadNamespace(rule *policyv1alpha1.PolicyRule, h fieldperm.Hidden) bool {
	return reads(rule, h, expr.MayReadNamespace)
}

func reads(rule *policyv1alpha1.PolicyRule, h fieldperm.Hidden, may func(source string, fields ...expr.Field) bool) bool {
	var fields []expr.Field
	for _, p := range hiddenfield.Places(h) {
		at := expr.Field{Beside: p.Copy}
		for _, step := range p.Path {
			at.Path = append(at.Path, step.Name)
		}
		fields = append(fields, at)
	}
	return slices.ContainsFunc([]string{rule.Where, rule.When}, func(source string) bool { return source != "" && may(source, fields...) })
}
