package authorize

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Facts is what admission knows, in the form that CEL reads. The enforcer passes it as ConditionsData; an object
// converted for one condition is kept for the next.
type Facts interface {
	authorizer.ConditionsData
	Expr() *expr.Data
	// Trusted returns an error if conditions would see something else than what will be done; then they must not
	// decide.
	Trusted() error
}

// Evicting is Facts that also know what an eviction deletes.
type Evicting interface {
	// Evicted is the deletion of the pod.
	Evicted(ctx context.Context) *expr.Data
}

var errNoPod = errors.New("the pod that the eviction would delete is not known")

// ruleCondition is a rule's condition with the request bound to it. Its text is only generated for people.
type ruleCondition struct {
	hit      ruleset.Hit
	compiled *rulecondition.Compiled
	rule     expr.Condition
	residual expr.Residual
	// attrs are the source of the request if the residual has none: then only people need it.
	attrs authorizer.Attributes
}

// decide evaluates the condition with the request alone. A rule that denies the delete in an eviction is about that
// delete.
func (c *ruleCondition) decide(req *expr.Request, effect expr.Effect) expr.Finding {
	if c.hit.ByDelete() {
		asked := *req
		asked.Verb, asked.Subresource = "delete", ""
		req = &asked
	}
	c.rule = expr.OfEach(c.rule, req)
	return c.rule.Decide(req, effect)
}

var _ authorizer.Condition = (*ruleCondition)(nil)

// bind takes a rule from the index. If the request has no name, the names of the rule are part of the condition.
func (c *ruleCondition) bind(hit ruleset.Hit) {
	c.hit, c.compiled, c.residual, c.attrs = hit, rulecondition.Of(hit), expr.Residual{}, nil
	c.rule = c.compiled.Condition
	if names := hit.Names(); names != nil {
		c.rule = rulecondition.Named(names, c.rule)
	}
}

func (c *ruleCondition) GetID() string {
	if c.hit.ByDelete() {
		return expr.DerivedID("evict", c.compiled.ID())
	}
	return c.compiled.ID()
}
func (c *ruleCondition) GetType() string        { return c.residual.Type() }
func (c *ruleCondition) GetCondition() string   { return c.shown().Text() }
func (c *ruleCondition) GetDescription() string { return c.compiled.Description }

// shown returns the residual with its request.
func (c *ruleCondition) shown() expr.Residual {
	if c.attrs == nil {
		return c.residual
	}
	return expr.Undecided(c.residual.Condition(), expr.NewRequest(c.attrs), c.residual.Effect()).Residual()
}

// Evaluate expects facts from the enforcer; other data is converted on the spot.
func (c *ruleCondition) Evaluate(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	facts := FactsOf(ctx, data)
	if c.hit.ByDelete() {
		evicting, ok := data.(Evicting)
		if !ok {
			return authorizer.ConditionEvaluationResultError(errNoPod)
		}
		facts = evicting.Evicted(ctx)
	}
	holds, err := c.residual.Evaluate(ctx, facts)
	if err != nil {
		return authorizer.ConditionEvaluationResultError(err)
	}
	return authorizer.ConditionEvaluationResultBoolean(holds)
}

// Values returns the values of the parts of a condition, for people. Only a rule's condition has any.
func Values(ctx context.Context, condition authorizer.Condition, data authorizer.ConditionsData) []expr.PartValue {
	c, ok := condition.(*ruleCondition)
	if !ok || c.hit.ByDelete() {
		return nil
	}
	return c.shown().Values(ctx, FactsOf(ctx, data))
}

// describe names the condition in a refusal, as a SelfSubjectAccessReview would.
func (c *ruleCondition) describe() string {
	if d := c.GetDescription(); d != "" {
		return fmt.Sprintf("denied by condition %q: %s", c.GetID(), d)
	}
	return fmt.Sprintf("denied by condition %q", c.GetID())
}

// always is the allow of an unconditional rule beside conditional denies.
func always(reason string) authorizer.Condition {
	return authorizer.GenericCondition{
		ID: expr.IDDomain + "/unconditional", Type: expr.TypeCEL, Condition: "true", Description: reason,
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			return authorizer.ConditionEvaluationResultBoolean(true)
		},
	}
}

// selected reports whether a list or watch reads only objects that meet the condition, because its selectors say so
// (CA-16).
func selected(c *ruleCondition, req *expr.Request, served *snapshot.Served) bool {
	return isList(req.Verb) && req.Subresource == "" && seenAsSelected(c, req, served) == nil && expr.Implied(c.rule, req, selectable(served, req))
}

// conditionSets builds the decision. Equal conditions appear once; conditions that do not fit into one set are split
// over consecutive sets, the denies in the first (CA-1).
func conditionSets(denies, allows []authorizer.Condition) authorizer.ConditionsAwareDecision {
	denies, allows = unique(denies), unique(allows)
	const limit = authorizer.MaxConditionsPerMap
	if len(denies) > limit {
		// More denies than a set can hold: the rest becomes one condition, which denies if any of them does.
		rest := anyOf(denies[limit-1:])
		denies = append(denies[:limit-1:limit-1], rest)
	}
	if len(denies)+len(allows) <= limit {
		return oneSet(denies, allows)
	}
	return manySets(denies, allows)
}

// oneSet builds the common case, a decision of one set. It is called deep in a request's stack and uses as little stack
// as it can: growing a stack costs more than deciding.
func oneSet(denies, allows []authorizer.Condition) authorizer.ConditionsAwareDecision {
	vetted := vet(denies, allows)
	d := authorizer.ConditionsAwareDecisionConditionsMap(denies, nil, allows)
	vetted.publish()
	return d
}

func manySets(denies, allows []authorizer.Condition) authorizer.ConditionsAwareDecision {
	vetted := vet(denies, allows)
	defer vetted.publish()
	var union authorizer.ConditionsAwareDecisionUnion
	room := authorizer.MaxConditionsPerMap - len(denies)
	for part := 1; len(allows) > 0 || part == 1; part++ {
		n := min(room, len(allows))
		union.Add(fmt.Sprintf("part-%d", part), authorizer.ConditionsAwareDecisionConditionsMap(denies, nil, allows[:n]))
		allows, denies, room = allows[n:], nil, authorizer.MaxConditionsPerMap
	}
	return union.ToDecision()
}

// vettedSet holds conditions of ours while upstream builds a set from them. Upstream would check IDs and types with
// regular expressions every time, which takes longer than the rest of the decision. Ours are unique here, and the
// compiler of the rule made them valid label keys, so the check sees numbers instead.
type vettedSet []vetted

type vetted struct {
	authorizer.Condition
	number string
}

// vet replaces the conditions in the lists.
func vet(lists ...[]authorizer.Condition) vettedSet {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	set := make(vettedSet, 0, n)
	for _, list := range lists {
		for i, c := range list {
			set = append(set, vetted{c, strconv.Itoa(len(set))})
			list[i] = &set[len(set)-1]
		}
	}
	return set
}

// publish gives the conditions their IDs and types back.
func (s vettedSet) publish() {
	for i := range s {
		s[i].number = ""
	}
}

func (v *vetted) GetID() string {
	if v.number != "" {
		return v.number
	}
	return v.Condition.GetID()
}

func (v *vetted) GetType() string {
	if v.number != "" {
		return ""
	}
	return v.Condition.GetType()
}

func unique(conditions []authorizer.Condition) []authorizer.Condition {
	if len(conditions) < 2 {
		return conditions
	}
	seen := make(map[string]bool, len(conditions))
	out := conditions[:0]
	for _, c := range conditions {
		if !seen[c.GetID()] {
			seen[c.GetID()] = true
			out = append(out, c)
		}
	}
	return out
}

func anyOf(conditions []authorizer.Condition) authorizer.Condition {
	return authorizer.GenericCondition{
		ID: expr.IDDomain + "/further-denies", Type: rulecondition.Type,
		Condition: fmt.Sprintf("any of %d further deny rules applies", len(conditions)),
		EvaluateFunc: func(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			result := authorizer.ConditionEvaluationResultBoolean(false)
			for _, c := range conditions {
				r := c.Evaluate(ctx, data)
				if r.IsTrue() {
					return r
				}
				if !r.IsFalse() {
					result = r // it denies too, but prefer a condition that holds: it says why
				}
			}
			return result
		},
	}
}

// evaluateSets decides a result of conditionSets and names the condition that decided against the request.
func evaluateSets(ctx context.Context, label string, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	if d.IsUnion() {
		var reasons []string
		var errs []error
		for _, sub := range d.UnionedDecisions() {
			decision, reason, err := evaluateSets(ctx, label, sub, data)
			if decision != authorizer.DecisionNoOpinion {
				return decision, reason, err
			}
			reasons, errs = append(reasons, reason), append(errs, err)
		}
		return authorizer.DecisionNoOpinion, strings.Join(reasons, "; "), errors.Join(errs...)
	}
	if !d.IsConditionsMap() {
		return d.FailureDecision(), "failed closed", fmt.Errorf("%s cannot evaluate %s", label, d)
	}
	m := d.ConditionsMap()
	decision, reason, err := m.Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, errNotEvaluable
	})
	if decision == authorizer.DecisionNoOpinion {
		return decision, Unmet(m), err
	}
	return decision, label + ": " + reason, err
}
