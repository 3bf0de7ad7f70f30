package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"proviso.dev/proviso/api/authorizationreview/reviewserver"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// conditionType is the type of our conditions: Cedar policies, as text.
const conditionType = "webhook.example.com/cedar"

// authorizer decides by a list of policies.
type authorizer struct{ policies cedar.PolicyList }

func newAuthorizer(name string, text []byte) (*authorizer, error) {
	policies, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		return nil, err
	}
	for i, p := range policies {
		if p.Annotations()["id"] == "" {
			return nil, fmt.Errorf("%s: policy %d has no @id", name, i)
		}
	}
	return &authorizer{policies}, nil
}

// Decide evaluates every policy as far as that can be done without the object. What is left of it is a condition.
func (a *authorizer) Decide(_ context.Context, q *reviewv1.SubjectAccessReviewSpec) (reviewserver.Decision, error) {
	if q.ResourceAttributes == nil || q.ResourceAttributes.Subresource != "" {
		return reviewserver.NoOpinion(""), nil
	}
	env := eval.Env{
		Principal: types.NewEntityUID("User", types.String(q.User)),
		Action:    types.NewEntityUID("Action", types.String(q.ResourceAttributes.Verb)),
		Resource:  types.NewEntityUID("Resource", types.String(q.ResourceAttributes.Resource)),
		Context:   eval.Variable("context"), Entities: types.EntityMap{},
	}
	var conditions []reviewv1.SubjectAccessReviewCondition
	var permits, open bool
	for _, p := range a.policies {
		rest, keep := eval.PartialPolicy(env, (*ast.Policy)(p.AST()))
		if !keep {
			continue
		}
		forbids := p.Effect() == cedar.Forbid
		switch {
		case forbids && len(rest.Conditions) == 0:
			return reviewserver.Deny(string(p.Annotations()["description"])), nil
		case !forbids:
			permits = true
		}
		open = open || len(rest.Conditions) > 0
		conditions = append(conditions, conditionOf(p, rest, env))
	}
	switch {
	case !permits:
		return reviewserver.NoOpinion(""), nil // denying is for who may at all
	case !open:
		return reviewserver.Allow("the policy permits it"), nil
	}
	return reviewserver.Under(conditions...), nil
}

// conditionOf writes down what is left of a policy, with the request in its scope: when the condition comes back, it is
// all that we know of the request.
func conditionOf(p *cedar.Policy, rest *ast.Policy, env eval.Env) reviewv1.SubjectAccessReviewCondition {
	rest.Annotations = nil
	rest = rest.PrincipalEq(env.Principal.(types.EntityUID)).ActionEq(env.Action.(types.EntityUID)).ResourceEq(env.Resource.(types.EntityUID))
	effect := reviewv1.EffectAllow
	if p.Effect() == cedar.Forbid {
		effect = reviewv1.EffectDeny
	}
	return reviewv1.SubjectAccessReviewCondition{
		ID: string(p.Annotations()["id"]), Effect: effect, Type: conditionType, Description: string(p.Annotations()["description"]),
		Condition: string(cedar.NewPolicyFromAST((*cedarast.Policy)(rest)).MarshalCedar()),
	}
}

// Met evaluates one condition, now that there is an object.
func (a *authorizer) Met(_ context.Context, e *reviewserver.Evaluation) (bool, error) {
	if e.Condition.Type != conditionType {
		return false, fmt.Errorf("type %q is not ours", e.Condition.Type)
	}
	var p cedar.Policy
	if err := p.UnmarshalCedar([]byte(e.Condition.Condition)); err != nil {
		return false, err
	}
	request, err := requestOf(&p, e)
	if err != nil {
		return false, err
	}
	policies := cedar.NewPolicySet()
	policies.Add("0", &p)
	_, found := cedar.Authorize(policies, types.EntityMap{}, request)
	if len(found.Errors) > 0 {
		return false, errors.New(found.Errors[0].Message)
	}
	met := len(found.Reasons) > 0
	if met {
		e.Annotate("policy", e.Condition.ID)
	}
	return met, nil
}

// requestOf reads the request out of the scope of a condition, and the context out of the review.
func requestOf(p *cedar.Policy, e *reviewserver.Evaluation) (cedar.Request, error) {
	scope := (*ast.Policy)(p.AST())
	principal, ok1 := scope.Principal.(ast.ScopeTypeEq)
	action, ok2 := scope.Action.(ast.ScopeTypeEq)
	resource, ok3 := scope.Resource.(ast.ScopeTypeEq)
	if !ok1 || !ok2 || !ok3 {
		return cedar.Request{}, errors.New("the condition does not say which request it is about")
	}
	given, err := contextOf(e.Request)
	return cedar.Request{Principal: principal.Entity, Action: action.Entity, Resource: resource.Entity, Context: given}, err
}
