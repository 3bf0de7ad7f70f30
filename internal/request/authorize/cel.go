package authorize

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
)

// CELConditions evaluates conditions of the built-in type that came as text: from a webhook, or in an
// AuthorizationConditionsReview.
type CELConditions struct {
	programs *expr.Cache
}

// NewCELConditions returns an evaluator with its own cache: conditions from outside must not evict those of stored
// rules.
func NewCELConditions(compiler *expr.Compiler) *CELConditions {
	return &CELConditions{programs: expr.NewCache(compiler)}
}

// Evaluate compiles the condition, or takes it from the cache, and evaluates it. It does neither if the client has
// disconnected.
func (e *CELConditions) Evaluate(ctx context.Context, c authorizer.Condition, data authorizer.ConditionsData) (bool, error) {
	if c.GetType() != expr.TypeCEL {
		return false, fmt.Errorf("conditions of type %q cannot be evaluated here", c.GetType())
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	program, err := e.Compile(c.GetCondition())
	if err != nil {
		return false, err
	}
	return Holds(ctx, program, requestOf(data), FactsOf(ctx, data))
}

// Holds evaluates a condition that came as text. If the request names no object, the condition is about the name of
// each, as that of a rule is (PO-20).
func Holds(ctx context.Context, program *expr.Program, req *expr.Request, facts *expr.Data) (bool, error) {
	// The effect does not matter to conditions that come as text.
	return expr.OfEach(program, req).Evaluate(ctx, req, expr.Deny, facts)
}

// Compile returns the program of an expression.
func (e *CELConditions) Compile(source string) (*expr.Program, error) {
	program, issues := e.programs.Stored(source, expr.When, "").Program()
	if len(issues) > 0 {
		return nil, issues
	}
	return program, nil
}

// requestOf returns what a condition that still mentions the request can know of it in admission.
func requestOf(data authorizer.ConditionsData) *expr.Request {
	resource := data.GetResource()
	r := &expr.Request{
		Verb: strings.ToLower(string(data.GetOperation())), APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
		Subresource: data.GetSubresource(), Namespace: data.GetNamespace(), Name: data.GetName(),
	}
	if u := data.GetUserInfo(); u != nil {
		r.User, r.UID, r.Groups, r.Extra = u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()
	}
	return r
}
