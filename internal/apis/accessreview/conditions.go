package accessreview

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
)

// TypeCEL is the type of condition that is evaluated here. Of all others only their authorizer knows what they mean.
const TypeCEL = expr.TypeCEL

// conditionsREST answers AuthorizationConditionsReview: what do these conditions come to for this object?
type conditionsREST struct {
	stateless
	evaluate authorizer.EvaluateConditionFunc
}

var _ rest.Creater = &conditionsREST{}

func (r *conditionsREST) New() runtime.Object { return &reviewv1alpha1.AuthorizationConditionsReview{} }

func (r *conditionsREST) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*reviewv1alpha1.AuthorizationConditionsReview)
	if !ok {
		return nil, notA("AuthorizationConditionsReview", obj)
	}
	data, errs := readRequest(review.Request)
	if err := invalid("AuthorizationConditionsReview", errs); err != nil {
		return nil, err
	}
	if err := admitted(ctx, review, admit); err != nil {
		return nil, err
	}
	// All conditions of a review spend from one budget, as those of a request do.
	data.shared = expr.NewBudget(0)
	review.Response = r.respond(expr.WithBudget(ctx, data.shared), &review.Request.ConditionSet, data)
	return review, nil
}

// respond evaluates a set (CA-2). A set that is malformed is not evaluated and fails closed (CA-1), whatever its
// failure mode: that is about conditions that are understood and fail.
func (r *conditionsREST) respond(ctx context.Context, set *reviewv1.SubjectAccessReviewConditionSet, data authorizer.ConditionsData) *reviewv1alpha1.AuthorizationConditionsResponse {
	conditions := decisionOf(set)
	if !conditions.IsConditionsMap() {
		return response(conditions.FailureDecision(), conditions.Reason(), conditions.Error())
	}
	decision, reason, err := conditions.ConditionsMap().Evaluate(ctx, data, r.one)
	if decision == authorizer.DecisionDeny && err != nil && set.FailureMode == reviewv1.FailureModeNoOpinion {
		decision = authorizer.DecisionNoOpinion
	}
	return response(decision, reason, err)
}

// one evaluates a condition. A condition that cannot be evaluated is an error; what that means depends on the effect.
func (r *conditionsREST) one(ctx context.Context, c authorizer.Condition, data authorizer.ConditionsData) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if c.GetType() != TypeCEL {
		return false, fmt.Errorf("type %q cannot be evaluated here, only %s can", c.GetType(), TypeCEL)
	}
	if r.evaluate == nil {
		return false, errors.New("this server evaluates no conditions")
	}
	return r.evaluate(ctx, c, data)
}

func response(decision authorizer.Decision, reason string, err error) *reviewv1alpha1.AuthorizationConditionsResponse {
	r := &reviewv1alpha1.AuthorizationConditionsResponse{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	if err != nil {
		r.EvaluationError = err.Error()
	}
	return r
}
