package expr

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Names of the variables of field permissions, as users write them.
const (
	varSelf, varOldSelf          = "self", "oldSelf"
	varKey, varValue, varElement = "key", "value", "element"
)

func fieldDeclarations(kind Kind) environment.VersionedOptions {
	names := []string{varSelf, varOldSelf}
	if kind == Parameter {
		names = []string{varValue, varElement}
	}
	opts := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{cel.Variable(varKey, cel.StringType)}}
	for _, name := range names {
		opts.EnvOptions = append(opts.EnvOptions, cel.Variable(name, cel.DynType))
	}
	return opts
}

// FieldValues is what an expression of a field permission is about. Values are decoded JSON; nil stands for a missing
// value.
type FieldValues struct {
	// Key of the nearest map entry or list element.
	Key string
	// Self and OldSelf are the new and the stored value, for an Exclusive.
	Self, OldSelf any
	// Value is the field's value and Element the nearest list element, for a
	// Parameter.
	Value, Element any
}

func (f *FieldValues) resolve(name string) (any, bool) {
	switch name {
	case varKey:
		return f.Key, true
	case varSelf:
		return orNullValue(f.Self), true
	case varOldSelf:
		return orNullValue(f.OldSelf), true
	case varValue:
		return orNullValue(f.Value), true
	case varElement:
		return orNullValue(f.Element), true
	}
	return nil, false
}

func orNullValue(v any) any {
	if v == nil {
		return types.NullValue
	}
	return v
}

// EvaluateExclusive evaluates an Exclusive. It ends with the request, and spends from the
// budget of the context.
func (p *Program) EvaluateExclusive(ctx context.Context, values FieldValues) (bool, error) {
	out, err := p.evaluateField(ctx, Exclusive, &values)
	if err != nil {
		return false, err
	}
	holds, ok := out.(types.Bool)
	if !ok {
		return false, notBool(out)
	}
	return bool(holds), nil
}

// EvaluateParameter evaluates a Parameter in the same way.
func (p *Program) EvaluateParameter(ctx context.Context, values FieldValues) (string, error) {
	out, err := p.evaluateField(ctx, Parameter, &values)
	if err != nil {
		return "", err
	}
	text, ok := out.(types.String)
	if !ok {
		return "", &EvalError{Reason: ReasonType, Detail: fmt.Sprintf("evaluation gave %s, not string", out.Type().TypeName())}
	}
	return string(text), nil
}

// fieldCost is the base cost of evaluating an expression of a field permission: there can be many in a request.
const fieldCost = 10

func (p *Program) evaluateField(ctx context.Context, kind Kind, values *FieldValues) (ref.Val, error) {
	budget := BudgetOf(ctx)
	if budget == nil {
		budget = NewBudget(0)
	}
	switch {
	case p.kind != kind:
		return nil, &EvalError{Reason: ReasonInternal, Detail: fmt.Sprintf("%s evaluated as %s", p.kind, kind)}
	case !budget.spend(fieldCost):
		return nil, errBudget
	}
	a := &activation{field: values}
	out, cost, err := p.evaluated(ctx, a)
	switch {
	case !budget.spend(cost):
		return nil, errBudget
	case err != nil:
		return nil, classify(ctx, err, nil)
	case out == nil:
		return nil, notBool(nil)
	}
	return out, nil
}

var errNoCondition = &EvalError{Reason: ReasonInternal, Detail: "the expression of a field permission is not a condition"}

var errBudget = &EvalError{Reason: ReasonCost, Detail: "the expressions of this request have used up their cost budget"}
