package restrict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/ruleset"
)

// descriptionLimit is what a condition set may carry (CA-1).
const descriptionLimit = 1024

// Compiled is what the index carries for a rule: its condition, and how people see it.
type Compiled struct {
	Condition expr.Condition
	// ID is unique among the rules of a tier and stable while the rule is.
	ID          string
	Description string
}

// CompileRule is the hook of the rule index.
func (c *Compiler) CompileRule(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
	condition, errs := c.Rule(rule, nil, true)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	compiled := describe(role, index, rule)
	compiled.Condition = condition
	return compiled, nil
}

// Unconditional stands for a rule that always holds.
func Unconditional(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) *Compiled {
	compiled := describe(role, index, rule)
	compiled.Condition = holds{}
	return compiled
}

func describe(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) *Compiled {
	effect := expr.Allow
	if rule != nil && rule.Deny {
		effect = expr.Deny
	}
	// The rule itself is part of the ID: a condition that was shown under an ID is never another one later.
	content, err := json.Marshal(rule)
	if err != nil {
		content = []byte(err.Error())
	}
	identity := fmt.Sprintf("%s\x00%s\x00%d\x00%s", role.Namespace, role.Name, index, content)
	c := &Compiled{ID: expr.ConditionID(role.Name, effect, identity)}
	if rule != nil {
		c.Description = strings.ToValidUTF8(rule.Description[:min(len(rule.Description), descriptionLimit)], "")
	}
	return c
}

// holds is a condition without any demand.
type holds struct{}

func (holds) Type() string                                   { return expr.TypeCEL }
func (holds) Decide(*expr.Request, expr.Effect) expr.Outcome { return expr.Decided(true) }
func (holds) Text(*expr.Request, expr.Effect) string         { return "true" }
func (holds) Evaluate(context.Context, *expr.Request, expr.Effect, *expr.Data) (bool, error) {
	return true, nil
}

// Named narrows a condition to objects of these names, for requests that do not say which object they are about.
func Named(names []string, c expr.Condition) expr.Condition {
	if c == nil {
		return named{names}
	}
	return expr.All(named{names}, c)
}

type named struct{ names []string }

func (named) Type() string { return Type }

func (n named) Decide(req *expr.Request, effect expr.Effect) expr.Outcome {
	return expr.Undecided(n, req, effect)
}

// Evaluate looks at the name of every version. An object without a name yet (generateName) could be given any: it counts as
// one of them for a deny, and as none for an allow.
func (n named) Evaluate(_ context.Context, req *expr.Request, effect expr.Effect, data *expr.Data) (bool, error) {
	seen := false
	for _, version := range []func(string) (runtime.Object, error){data.Object, data.OldObject} {
		object, err := version("")
		if err != nil {
			return false, err
		}
		if object == nil {
			continue
		}
		m, err := meta.Accessor(object)
		if err != nil {
			return false, err
		}
		seen = true
		match := slices.Contains(n.names, m.GetName()) || (m.GetName() == "" && effect != expr.Allow)
		if match && effect != expr.Allow {
			return true, nil
		}
		if !match && effect == expr.Allow {
			return false, nil
		}
	}
	return seen && effect == expr.Allow, nil
}

func (n named) Text(*expr.Request, expr.Effect) string {
	return "the object's name is one of " + strings.Join(n.names, ", ")
}
