package authorize

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/expr"
)

// celCacheSize bounds the compiled conditions of others that are kept. What does not fit is compiled again.
const celCacheSize = 1024

// CELConditions evaluates conditions of the built-in type that came as text: from a webhook, or in an
// AuthorizationConditionsReview.
type CELConditions struct {
	compiler *expr.Compiler

	mu       sync.Mutex
	programs map[string]*expr.Program
}

// NewCELConditions returns an evaluator with an empty cache.
func NewCELConditions(compiler *expr.Compiler) *CELConditions {
	return &CELConditions{compiler: compiler, programs: map[string]*expr.Program{}}
}

// Evaluate compiles the condition, or takes it from the cache, and evaluates it.
func (e *CELConditions) Evaluate(ctx context.Context, c authorizer.Condition, data authorizer.ConditionsData) (bool, error) {
	if c.GetType() != expr.TypeCEL {
		return false, fmt.Errorf("conditions of type %q cannot be evaluated here", c.GetType())
	}
	program, err := e.Compile(c.GetCondition())
	if err != nil {
		return false, err
	}
	return program.Evaluate(ctx, requestOf(data), expr.Deny, factsOf(data))
}

// Compile returns the program of an expression.
func (e *CELConditions) Compile(source string) (*expr.Program, error) {
	e.mu.Lock()
	program, ok := e.programs[source]
	e.mu.Unlock()
	if ok {
		return program, nil
	}
	program, issues := e.compiler.Compile(source, expr.Options{Kind: expr.When, Stored: true})
	if len(issues) > 0 {
		return nil, issues
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.programs) >= celCacheSize {
		clear(e.programs)
	}
	e.programs[source] = program
	return program, nil
}

// requestOf is what a condition that still mentions the request can know of it at admission.
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
