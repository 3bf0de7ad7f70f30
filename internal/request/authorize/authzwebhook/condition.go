package authzwebhook

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

// conditionSet is the answer of the webhook with the request that it answers. It is immutable: cached answers share it.
type conditionSet struct {
	webhook *Webhook
	answer  reviewv1.SubjectAccessReviewConditionSet
	request *expr.Request
}

// failOpen is the failure mode of the set: its own if it has one, else that of the webhook (CA-2).
func (s *conditionSet) failOpen() bool {
	if s.answer.FailureMode == "" {
		return s.webhook.failOpen
	}
	return s.answer.FailureMode == reviewv1.FailureModeNoOpinion
}

// condition is one condition of a set.
type condition struct {
	set  *conditionSet
	said *reviewv1.SubjectAccessReviewCondition
}

var _ authorizer.Condition = (*condition)(nil)

func (c *condition) GetID() string          { return c.said.ID }
func (c *condition) GetType() string        { return c.said.Type }
func (c *condition) GetCondition() string   { return c.said.Condition }
func (c *condition) GetDescription() string { return c.said.Description }

// Evaluate decides conditions of the built-in type in process. Those that do not compile are left to the webhook, which
// may know a later CEL; so are all other types. Without an endpoint to ask, they fail.
func (c *condition) Evaluate(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	return c.evaluate(ctx, authorize.FactsOf(ctx, data))
}

func (c *condition) evaluate(ctx context.Context, facts *expr.Data) authorizer.ConditionEvaluationResult {
	if c.said.Type != expr.TypeCEL {
		return authorizer.ConditionsEvaluationResultUnevaluatable()
	}
	program, err := c.set.webhook.cel.Compile(c.said.Condition)
	switch {
	case err != nil && c.set.webhook.conditions == nil:
		return authorizer.ConditionEvaluationResultError(err)
	case err != nil:
		return authorizer.ConditionsEvaluationResultUnevaluatable()
	}
	holds, err := authorize.Holds(ctx, program, c.set.request, facts)
	if err != nil {
		return authorizer.ConditionEvaluationResultError(err)
	}
	return authorizer.ConditionEvaluationResultBoolean(holds)
}

// checkSet checks what Kubernetes' own constructor of a set does not.
func checkSet(set *reviewv1.SubjectAccessReviewConditionSet) error {
	switch set.FailureMode {
	case "", reviewv1.FailureModeDeny, reviewv1.FailureModeNoOpinion:
	default:
		return fmt.Errorf("failureMode %q is unknown", shorten(string(set.FailureMode)))
	}
	for i := range set.Conditions {
		if err := checkCondition(&set.Conditions[i]); err != nil {
			return fmt.Errorf("condition %d is malformed: %w", i, err)
		}
	}
	return nil
}

func checkCondition(c *reviewv1.SubjectAccessReviewCondition) error {
	if err := authorize.CheckCondition(c.Condition, c.Description); err != nil {
		return err
	}
	switch c.Effect {
	case reviewv1.EffectAllow, reviewv1.EffectDeny, reviewv1.EffectNoOpinion:
		return nil
	}
	return fmt.Errorf("effect %q is unknown", shorten(string(c.Effect)))
}

// shorten keeps a message readable whatever it quotes.
func shorten(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
