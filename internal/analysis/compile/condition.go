package compile

import (
	"errors"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// twin is a condition in Go that says the same in CEL.
type twin interface {
	Twin(expr.Effect) (string, expr.Kind)
}

var (
	errFields = errors.New("fieldsMutable depends on who manages which field, and CEL cannot read managed fields")
	errForm   = errors.New("its condition has a form that cannot be written in CEL")
)

// condition writes the condition of a rule in terms of an admission policy.
func condition(cel *expr.Compiler, src *policyv1alpha1.PolicyRule, r *matching.Rule, at []reach) (string, error) {
	t := &translator{cel: cel, verb: verbText(at), spaces: slices.ContainsFunc(at, func(a reach) bool { return !a.Namespaced })}
	var parts []string
	add := func(text string, err error) error {
		parts = append(parts, "("+text+")")
		return err
	}
	if src.Where != "" {
		if err := add(t.where(src.Where, src.Deny)); err != nil {
			return "", err
		}
	}
	if src.When != "" {
		if err := add(t.when(src.When)); err != nil {
			return "", err
		}
	}
	if src.AttributeRestrictions != nil {
		if err := restrictions(src, r, add); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, " && "), nil
}

// restrictions are the attributeRestrictions of a rule.
func restrictions(src *policyv1alpha1.PolicyRule, r *matching.Rule, add func(string, error) error) error {
	if src.AttributeRestrictions.FieldsMutable != nil {
		return errFields
	}
	effect := expr.Allow
	if src.Deny {
		effect = expr.Deny
	}
	if src.AttributeRestrictions.SameNodeRestriction {
		if err := add(sameNode(src.Deny), nil); err != nil {
			return err
		}
	}
	compiled, ok := r.Cond.(*rulecondition.Compiled)
	if !ok {
		return errForm
	}
	found := false
	for _, part := range expr.Parts(compiled.Ready().Condition) {
		if twin, ok := part.(twin); ok {
			text, kind := twin.Twin(effect)
			if kind != expr.When {
				return errForm
			}
			found = true
			if err := add(text, nil); err != nil {
				return err
			}
		}
	}
	if src.AttributeRestrictions.LabelsContain != nil && !found {
		return errForm
	}
	return nil
}

// ofOwnKind reports whether a condition is about an object of the resource's own kind.
func ofOwnKind(src *policyv1alpha1.PolicyRule) bool {
	return src.Where != "" || src.AttributeRestrictions != nil
}

// verbText is the verb of a request in CEL, or empty if admission cannot tell it.
func verbText(at []reach) string {
	update := ""
	for _, a := range at {
		for _, v := range a.verbs {
			switch {
			case !verbs.Updates(v):
			case update == "" || update == v:
				update = v
			default:
				return ""
			}
		}
	}
	return `(request.operation == "CREATE" ? "create" : request.operation == "UPDATE" ? "` + update +
		`" : ` + celName + ` == "" ? "deletecollection" : "delete")`
}

// celNode is the node that the caller speaks for, or empty.
const celNode = `(` + celUser + `.startsWith("system:node:") && "system:nodes" in ` + celGroups + ` ? request.userInfo.username.substring(12) : ` +
	celExtra + `[?"authentication.kubernetes.io/node-name"].orValue([]).size() == 1 ? request.userInfo.extra["authentication.kubernetes.io/node-name"][0] : "")`

// sameNode is the restriction of that name.
func sameNode(deny bool) string {
	var parts []string
	for _, v := range []string{"oldObject", "object"} {
		node := `(` + celGroup + ` == "" && ` + celPlural + ` == "nodes" ? ` + v + `.metadata.name : `
		for _, path := range [][2]string{{"has(" + v + ".spec) && has(" + v + ".spec.nodeName)", v + ".spec.nodeName"},
			{"has(" + v + ".spec) && has(" + v + ".spec.host)", v + ".spec.host"}, {"has(" + v + ".nodeName)", v + ".nodeName"}} {
			node += path[0] + " && type(" + path[1] + ") == string ? " + path[1] + " : "
		}
		parts = append(parts, forVersion(v, node+`"") == `+celNode, deny))
	}
	return celNode + ` != "" && (` + strings.Join(parts, map[bool]string{true: " || ", false: " && "}[deny]) + ")"
}
