package authorize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/rulecondition"
)

// linkCondition denies the objects that a link of a token does not allow. A rule that cannot be evaluated allows
// nothing, or denies.
type linkCondition struct {
	number int
	text   string
	rules  *narrowedtoken.Link
	// allowed is true if every object is allowed that no deny matches.
	allowed        bool
	allows, denies []*ruleCondition
}

var _ authorizer.Condition = (*linkCondition)(nil)

// bind takes the rules that depend on the object. It returns Deny if no object is allowed, Allow if all are, and
// NoOpinion otherwise.
func (l *linkCondition) bind(set *openSet, answer narrowedtoken.Answer) authorizer.Decision {
	for _, hit := range answer.Denies {
		c := new(ruleCondition)
		c.bind(hit)
		switch o := set.decide(c, expr.Deny); o.Truth() {
		case expr.False:
		case expr.Unresolved:
			c.residual = o.Residual()
			l.denies = append(l.denies, c)
		default:
			return authorizer.DecisionDeny
		}
	}
	l.allowed = answer.Allowed
	for _, hit := range answer.Allows {
		c := new(ruleCondition)
		c.bind(hit)
		switch o := set.decide(c, expr.Allow); o.Truth() {
		case expr.True:
			l.allowed = true
		case expr.Unresolved:
			c.residual = o.Residual()
			l.allows = append(l.allows, c)
		}
	}
	switch {
	case l.allowed && len(l.denies) == 0:
		return authorizer.DecisionAllow
	case l.allowed:
		l.allows = nil
	case len(l.allows) == 0:
		return authorizer.DecisionDeny
	}
	return authorizer.DecisionNoOpinion
}

// refusal names the link (TK-3).
func (l *linkCondition) refusal() string {
	why := "your token does not allow it: link " + strconv.Itoa(l.number)
	if d := l.rules.Description; d != "" {
		why += ", *" + d + "*"
	}
	return why
}

// Evaluate holds for what the link does not allow.
func (l *linkCondition) Evaluate(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	var errs []error
	for _, c := range l.denies {
		if result := c.Evaluate(ctx, data); !result.IsFalse() {
			return authorizer.ConditionEvaluationResultBoolean(true)
		}
	}
	if l.allowed {
		return authorizer.ConditionEvaluationResultBoolean(false)
	}
	for _, c := range l.allows {
		result := c.Evaluate(ctx, data)
		if result.IsTrue() {
			return authorizer.ConditionEvaluationResultBoolean(false)
		}
		if err := result.Error(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return authorizer.ConditionEvaluationResultError(errors.Join(errs...))
	}
	return authorizer.ConditionEvaluationResultBoolean(true)
}

// GetID distinguishes the conditions of links.
func (l *linkCondition) GetID() string {
	return expr.ConditionID("token-link-"+strconv.Itoa(l.number), expr.Deny, l.text)
}

// GetType is that of conditions that only this server evaluates.
func (l *linkCondition) GetType() string { return rulecondition.Type }

// GetCondition is for people.
func (l *linkCondition) GetCondition() string {
	return fmt.Sprintf("no rule of link %d of the token allows the object", l.number)
}

// GetDescription is that of the link.
func (l *linkCondition) GetDescription() string { return l.rules.Description }

// readsHidden finds a hidden field of the resource, or of namespaces, that a condition of the link may read. The holder
// of a token writes its links: which objects they allow would reveal the field (HF-5).
func (l *linkCondition) readsHidden(fields *fieldperm.Table, resource fieldperm.Resource) (found fieldperm.Hidden, reads bool) {
	if !fields.HidesAny() {
		return found, false
	}
	for _, c := range slices.Concat(l.denies, l.allows) {
		rule := c.hit.PolicyRule()
		for _, h := range fields.Hidden(resource) {
			if rule == nil || MayRead(rule, h) {
				return h, true
			}
		}
		for _, h := range fields.Hidden(HiddenPlaces) {
			if rule == nil || MayReadNamespace(rule, h) {
				return h, true
			}
		}
	}
	return found, false
}
