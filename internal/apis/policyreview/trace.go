package policyreview

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
)

// maxRules is how many rules of one authorizer a trace lists; a subject can have thousands.
const maxRules = 100

// traced is one step of the chain with the rules behind it.
type traced struct {
	authorize.Step
	shown authz.AuthorizerTrace
	// rules are those of a link that has some, also if it was not asked, and values what their conditions evaluate to.
	rules  []authorize.Applied
	values []authz.ConditionTrace
	// folded is true if no condition is evaluated on such a request: then a conditional deny denies.
	folded bool
}

// trace shows how the decision was made. It shows only what the subject could find out by a review of its own, or by
// trying: rules that apply to it, and the text of conditions that decide (CA-10).
func (q *inquiry) trace(ctx context.Context) *authz.DecisionTrace {
	honoured := q.Gate.Unseen(q.attrs) == nil
	var data authorizer.ConditionsData
	if q.content != nil {
		data = q.content.data()
	}
	var steps []*traced
	for _, s := range q.Gate.Chain.Trace(ctx, q.attrs, data, honoured) {
		t := q.traceStep(ctx, s)
		t.folded = !honoured
		if s.Asked {
			t.showRules()
		}
		steps = append(steps, t)
	}
	if conclude(steps) == authz.AnswerNoOpinion {
		if s, asked := q.fieldStep(ctx); asked {
			steps = append(steps, q.traceStep(ctx, s))
		}
	}
	if o := conclude(steps); o == authz.AnswerAllow || o == authz.AnswerConditional {
		// A request that is refused anyway needs no further obstacles.
		for _, s := range q.inFront(ctx) {
			steps = append(steps, q.traceStep(ctx, s))
		}
	}
	answer := conclude(steps)
	trace := &authz.DecisionTrace{Decision: answer}
	for _, t := range steps {
		if t.shown.Answer == answer && answer != authz.AnswerConditional && answer != authz.AnswerNoOpinion {
			trace.DecidedBy = t.shown.Name
		}
		trace.Authorizers = append(trace.Authorizers, t.shown)
	}
	if answer != authz.AnswerAllow {
		trace.Remedy = q.remedy(ctx, steps)
	}
	return trace
}

// conclude combines the steps. Steps after the chain, like protected attributes, can still deny the request.
func conclude(steps []*traced) authz.TracedAnswer {
	var allow, deny bool
	refused := true // there is a path through the steps so far on which none has allowed it
	for _, t := range steps {
		switch {
		case !t.Asked:
		case t.Open:
			possible := t.Answer.PossibleDecisions()
			allow = allow || possible.Has(authorizer.DecisionAllow)
			deny = deny || possible.Has(authorizer.DecisionDeny)
		case t.Decision == authorizer.DecisionAllow:
			allow, refused = true, false
		case t.Decision == authorizer.DecisionDeny && t.Link.Authorizer == nil:
			return authz.AnswerDeny
		case t.Decision == authorizer.DecisionDeny:
			deny, refused = true, false
		}
	}
	switch {
	case allow && !deny && !refused:
		return authz.AnswerAllow
	case allow:
		return authz.AnswerConditional
	case deny && !refused:
		return authz.AnswerDeny
	}
	return authz.AnswerNoOpinion
}

func (q *inquiry) traceStep(ctx context.Context, s authorize.Step) *traced {
	t := &traced{Step: s, shown: authz.AuthorizerTrace{Name: s.Link.Name, Answer: answerOf(s), Reason: s.Reason}}
	if s.Err != nil {
		t.shown.Error = s.Err.Error()
	}
	if s.Reason == "" && s.Asked && s.Decision == authorizer.DecisionAllow && s.Link.Name == links.SystemMasters {
		t.shown.Reason = "members of the group system:masters may do everything"
	}
	tracer, ok := s.Link.Authorizer.(authorize.RuleTracer)
	if !ok {
		for _, c := range conditionsOf(s.Answer) {
			t.shown.Conditions = append(t.shown.Conditions, authz.ConditionTrace{Condition: c, Value: authz.ConditionUnknown})
		}
		if q.content != nil && s.Link.Name != fieldsName {
			q.evaluateAll(ctx, t)
		}
		return t
	}
	t.rules = tracer.Applying(ctx, q.Gate.Chain.Scoped(q.attrs))
	visible := map[string]bool{}
	for _, c := range conditionsOf(s.Answer) {
		visible[c.ID] = true
	}
	for _, rule := range t.rules {
		t.values = append(t.values, q.value(ctx, rule, s.Asked && visible[conditionID(rule)]))
	}
	return t
}

func answerOf(s authorize.Step) authz.TracedAnswer {
	switch {
	case !s.Asked:
		return authz.AnswerNotAsked
	case s.Open:
		return authz.AnswerConditional
	case s.Decision == authorizer.DecisionAllow:
		return authz.AnswerAllow
	case s.Decision == authorizer.DecisionNoOpinion:
		return authz.AnswerNoOpinion
	}
	return authz.AnswerDeny
}

// evaluateAll fills in the values of the conditions of a link without rules.
func (q *inquiry) evaluateAll(ctx context.Context, t *traced) {
	i := 0
	for c := range eachCondition(t.Answer) {
		result := c.Evaluate(ctx, q.content.data())
		if result.IsUnevaluatable() && q.Evaluate != nil {
			if holds, err := q.Evaluate(ctx, c, q.content.data()); err != nil {
				result = authorizer.ConditionEvaluationResultError(err)
			} else {
				result = authorizer.ConditionEvaluationResultBoolean(holds)
			}
		}
		setValue(&t.shown.Conditions[i], result)
		i++
	}
}

func conditionID(rule authorize.Applied) string {
	if rule.Condition == nil {
		return ""
	}
	return rule.Condition.GetID()
}

// value is what a rule's condition evaluates to. The text is shown only where a review would show it.
func (q *inquiry) value(ctx context.Context, rule authorize.Applied, visible bool) authz.ConditionTrace {
	out := authz.ConditionTrace{Value: authz.ConditionTrue}
	if rule.Condition != nil {
		out.Condition = authz.Condition{ID: rule.Condition.GetID(), Effect: effectOf(rule.Hit), Description: rule.Condition.GetDescription()}
	}
	switch rule.Known {
	case expr.True:
	case expr.False:
		out.Value = authz.ConditionFalse
	case expr.Failed:
		out.Value, out.Error = authz.ConditionError, "it fails for every object"
	default:
		out.Value = authz.ConditionUnknown
		if visible {
			out.Condition = condition(rule.Condition, effectOf(rule.Hit))
		}
		if q.content != nil {
			setValue(&out, rule.Condition.Evaluate(ctx, q.content.data()))
			if visible {
				out.Parts = partsOf(authorize.Values(ctx, rule.Condition, q.content.data()))
			}
		}
	}
	return out
}

// partsOf shows the values of the parts of a condition.
func partsOf(values []expr.PartValue) (parts []authz.ConditionPart) {
	for _, v := range values {
		part := authz.ConditionPart{Depth: int32(v.Depth), Expression: v.Text, Value: v.Value}
		if v.Err != nil {
			part.Error = v.Err.Error()
		}
		parts = append(parts, part)
	}
	return parts
}

func setValue(c *authz.ConditionTrace, result authorizer.ConditionEvaluationResult) {
	switch {
	case result.IsTrue():
		c.Value = authz.ConditionTrue
	case result.IsFalse():
		c.Value = authz.ConditionFalse
	case result.IsError():
		c.Value, c.Error = authz.ConditionError, result.Error().Error()
	}
}

func effectOf(hit ruleset.Hit) authz.ConditionEffect {
	if hit.Effect() == ruleset.Denies {
		return authz.EffectDeny
	}
	return authz.EffectAllow
}

// showRules lists the rules of a link that was asked.
func (t *traced) showRules() {
	decides := t.decider()
	for i := range t.rules {
		if len(t.shown.Rules) >= maxRules && i != decides {
			t.shown.MoreRules++
			continue
		}
		shown := t.rule(i)
		shown.Decides = i == decides
		t.shown.Rules = append(t.shown.Rules, shown)
	}
}

// rule is a rule as it is shown.
func (t *traced) rule(i int) authz.RuleTrace {
	hit := t.rules[i].Hit
	out := authz.RuleTrace{
		Effect: effectOf(hit), Role: roleOf(hit.Role()), RuleIndex: int32(hit.RuleIndex()), Rule: hit.Describe(),
		Binding: bindingOf(hit.Binding()), Subject: subjectOf(hit.Subject()), Yields: t.rules[i].Yields,
	}
	if t.rules[i].Condition != nil {
		value := t.values[i]
		if t.rules[i].Known == expr.Unresolved && value.Condition.Condition == "" {
			value.Value, value.Error, value.Parts = authz.ConditionUnknown, "", nil // no review shows this condition
		}
		out.Condition = &value
	}
	return out
}

// decider is the rule that decided, or -1: the one that the reason is about, or the first that is in force.
func (t *traced) decider() int {
	var effect authz.ConditionEffect
	switch {
	case t.Open:
		return -1
	case t.Decision == authorizer.DecisionAllow:
		effect = authz.EffectAllow
	case t.Decision == authorizer.DecisionDeny:
		effect = authz.EffectDeny
	default:
		return -1
	}
	first := -1
	for i, rule := range t.rules {
		if effectOf(rule.Hit) != effect || !t.inForce(i) {
			continue
		}
		if strings.HasPrefix(t.Reason, rule.Hit.Reason()) || rule.Condition != nil && strings.Contains(t.Reason, rule.Condition.GetID()) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

// inForce reports whether a rule holds for this request and object. An allow that cannot be evaluated does not, a deny
// does.
func (t *traced) inForce(i int) bool {
	rule, value := t.rules[i], t.values[i].Value
	if rule.Hit.Effect() == ruleset.Allows {
		return value == authz.ConditionTrue
	}
	return !rule.Yields && (value == authz.ConditionTrue || value == authz.ConditionError || t.folded && value == authz.ConditionUnknown)
}
