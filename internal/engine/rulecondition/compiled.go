package rulecondition

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Compiled is what the index carries for a rule: its condition, and its representation for people. Call Ready to get
// it.
type Compiled struct {
	Condition   expr.Condition
	Description string

	id    [1]string
	said  atomic.Pointer[said]
	later *deferred
}

// said is the last message about a condition.
type said struct{ by, did, text string }

// ID is unique among the rules of a tier and stable as long as the rule does not change.
func (c *Compiled) ID() string { return c.id[0] }

// IDs returns a list of only the ID, which must not be changed.
func (c *Compiled) IDs() []string { return c.id[:] }

// Because returns the message that the condition has decided. It is nearly always the same one, which is reused. An ID
// is a label key, and needs no quoting.
func (c *Compiled) Because(by, did string) string {
	if s := c.said.Load(); s != nil && s.by == by && s.did == did {
		return s.text
	}
	s := &said{by, did, by + `: condition "` + c.ID() + `" ` + did + " the request"}
	if c.Description != "" {
		s.text += " with description " + strconv.Quote(c.Description)
	}
	c.said.Store(s)
	return s.text
}

// RuleCondition implements ruleset.Condition.
func (*Compiled) RuleCondition() {}

// CompileRule is the hook of the rule index. With a cache it compiles nothing, so publishing the index does not wait
// for conditions (PO-21); it fails for a condition that is already known not to compile.
func (c *Compiler) CompileRule(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
	d := &deferred{compiler: c, role: role, index: index, rule: rule}
	if c.Cache == nil {
		return d.condition()
	}
	if issues := c.known(rule); len(issues) > 0 {
		return nil, issues
	}
	for kind, source := range map[expr.Kind]string{expr.Where: rule.Where, expr.When: rule.When} {
		if source != "" {
			c.Cache.Stored(source, kind, rule.APIVersion) // to be compiled in the background
		}
	}
	if rule.Where == "" && rule.When == "" {
		return d.condition() // restrictions take no time
	}
	return &Compiled{later: d}, nil
}

// Broken reports whether an expression of the rule is already known not to compile.
func (c *Compiler) Broken(rule *policyv1alpha1.PolicyRule) bool {
	return c.Cache != nil && len(c.known(rule)) > 0
}

// known returns what is known to be wrong with the expressions of a rule.
func (c *Compiler) known(rule *policyv1alpha1.PolicyRule) expr.Issues {
	return append(c.Cache.Broken(rule.Where, expr.Where, rule.APIVersion), c.Cache.Broken(rule.When, expr.When, rule.APIVersion)...)
}

// Ready returns the compiled condition. The first caller compiles it; the others wait.
func (c *Compiled) Ready() *Compiled {
	if c.later == nil {
		return c
	}
	return c.later.ready()
}

// deferred is a rule whose condition is compiled when it is first needed.
type deferred struct {
	compiler *Compiler
	role     ruleset.RoleRef
	index    int
	rule     *policyv1alpha1.PolicyRule

	done atomic.Pointer[Compiled]
}

func (d *deferred) ready() *Compiled {
	if done := d.done.Load(); done != nil {
		return done
	}
	// Two concurrent callers get the same: expressions are compiled once, in the cache.
	compiled, err := d.compile()
	if err != nil {
		compiled = describe(d.role, d.index, d.rule)
		compiled.Condition = broken{err}
	}
	d.done.CompareAndSwap(nil, compiled)
	return d.done.Load()
}

func (d *deferred) condition() (ruleset.Condition, error) {
	compiled, err := d.compile()
	if err != nil {
		return nil, err
	}
	return compiled, nil
}

func (d *deferred) compile() (*Compiled, error) {
	condition, errs := d.compiler.Rule(d.rule, nil, true)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	compiled := describe(d.role, d.index, d.rule)
	compiled.Condition = condition
	return compiled, nil
}

// broken is the condition of a rule that does not compile, until the index knows that: an allow grants nothing, and a
// deny denies without its condition (SV-8).
type broken struct{ err error }

func (broken) Type() string { return expr.TypeCEL }

func (b broken) Decide(_ *expr.Request, effect expr.Effect) expr.Finding {
	if effect == expr.Allow {
		return expr.DecidedError(&expr.EvalError{Reason: expr.ReasonUncompiled, Detail: b.err.Error()})
	}
	return expr.Decided(true)
}

func (b broken) Evaluate(_ context.Context, _ *expr.Request, effect expr.Effect, _ *expr.Data) (bool, error) {
	if effect == expr.Allow {
		return false, &expr.EvalError{Reason: expr.ReasonUncompiled, Detail: b.err.Error()}
	}
	return true, nil
}

// Twin says the same in CEL, for those who compare conditions.
func (broken) Twin(effect expr.Effect) (string, expr.Kind) {
	if effect == expr.Allow {
		return "false", expr.When
	}
	return "true", expr.When
}

func (broken) Text(*expr.Request, expr.Effect) string { return "true" }

// Of returns the condition of a rule in the index. A rule without one always holds; one that this package did not
// build, or that compiled to nothing, fails closed.
func Of(hit ruleset.Hit) *Compiled {
	switch c := hit.Condition().(type) {
	case nil: // a quarantined deny rule, or a rule that is only limited to names
		return Unconditional(hit.Role(), hit.RuleIndex(), hit.PolicyRule())
	case *Compiled:
		if c == nil {
			break
		}
		if ready := c.Ready(); ready.Condition != nil {
			return ready
		}
	}
	compiled := describe(hit.Role(), hit.RuleIndex(), hit.PolicyRule())
	compiled.Condition = broken{fmt.Errorf("the rule has a condition of an unknown type: %T", hit.Condition())}
	return compiled
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
	// The rule itself is part of the ID: an ID never refers to a different condition later.
	content, err := json.Marshal(rule)
	if err != nil {
		content = []byte(err.Error())
	}
	identity := fmt.Sprintf("%s\x00%s\x00%d\x00%s", role.Namespace, role.Name, index, content)
	c := &Compiled{id: [1]string{expr.ConditionID(role.Name, effect, identity)}}
	if rule != nil {
		c.Description = strings.ToValidUTF8(rule.Description[:min(len(rule.Description), expr.MaxDescription)], "")
	}
	return c
}

// holds is a condition that is always met.
type holds struct{}

func (holds) Type() string                                   { return expr.TypeCEL }
func (holds) Decide(*expr.Request, expr.Effect) expr.Finding { return expr.Decided(true) }
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

func (n named) Decide(req *expr.Request, effect expr.Effect) expr.Finding {
	return expr.Undecided(n, req, effect)
}

// Evaluate looks at the name of every version. An object without a name yet (generateName) could get any name: for a
// deny it counts as having one of them, for an allow as having none.
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

// Twin says the same in CEL, for those who compare conditions.
func (n named) Twin(effect expr.Effect) (string, expr.Kind) {
	names := make([]string, 0, len(n.names)+1)
	for _, name := range n.names {
		names = append(names, strconv.Quote(name))
	}
	if effect != expr.Allow {
		names = append(names, `""`) // a name that is not known
	}
	return `resource.metadata.?name.orValue("") in [` + strings.Join(names, ", ") + "]", expr.Where
}

func (n named) Text(*expr.Request, expr.Effect) string {
	return "the object's name is one of " + strings.Join(n.names, ", ")
}

// What the conditions of this package look at in addition to the object; see expr.Looker.

func (broken) Looks() expr.Looks         { return expr.Looks{} }
func (holds) Looks() expr.Looks          { return expr.Looks{} }
func (named) Looks() expr.Looks          { return expr.Looks{} }
func (*labelsContain) Looks() expr.Looks { return expr.Looks{} }
func (*fieldsMutable) Looks() expr.Looks { return expr.Looks{} }
func (sameNode) Looks() expr.Looks       { return expr.Looks{Request: true, Action: true} }
