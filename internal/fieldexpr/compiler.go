package fieldexpr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"proviso.dev/proviso/internal/fieldperm"
)

// Names of the variables, as users write them.
const (
	varSelf, varOldSelf          = "self", "oldSelf"
	varKey, varValue, varElement = "key", "value", "element"
)

// Compiler compiles the expressions of declarations. It is immutable and safe for concurrent use.
type Compiler struct {
	when, parameter *environment.EnvSet
	// stored relaxes the check for what is stored already: it may use libraries of a later version.
	stored bool
}

var _ fieldperm.Expressions = (*Compiler)(nil)

// New makes the compiler for expressions that are being written.
func New() (*Compiler, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	extend := func(options ...cel.EnvOption) (*environment.EnvSet, error) {
		return base.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options})
	}
	when, err := extend(cel.Variable(varKey, cel.StringType), cel.Variable(varSelf, cel.DynType), cel.Variable(varOldSelf, cel.DynType))
	if err != nil {
		return nil, fmt.Errorf("CEL environment of exclusiveWhen: %w", err)
	}
	parameter, err := extend(cel.Variable(varKey, cel.StringType), cel.Variable(varValue, cel.DynType), cel.Variable(varElement, cel.DynType))
	if err != nil {
		return nil, fmt.Errorf("CEL environment of parameters: %w", err)
	}
	return &Compiler{when: when, parameter: parameter}, nil
}

// Stored is the compiler for expressions that were accepted when they were written.
func (c *Compiler) Stored() *Compiler {
	stored := *c
	stored.stored = true
	return &stored
}

// When implements fieldperm.Expressions.
func (c *Compiler) When(expression string) (fieldperm.When, error) {
	program, err := c.compile(c.when, expression, cel.BoolType)
	if err != nil {
		return nil, err
	}
	return when{program}, nil
}

// Parameter implements fieldperm.Expressions.
func (c *Compiler) Parameter(expression string) (fieldperm.Parameterizer, error) {
	program, err := c.compile(c.parameter, expression, cel.StringType)
	if err != nil {
		return nil, err
	}
	return parameter{program}, nil
}

func (c *Compiler) compile(set *environment.EnvSet, expression string, want *cel.Type) (cel.Program, error) {
	env := set.NewExpressionsEnv()
	if c.stored {
		env = set.StoredExpressionsEnv()
	}
	ast, issues := env.Compile(expression)
	if issues != nil && issues.Err() != nil {
		return nil, describe(issues)
	}
	if out := ast.OutputType(); !out.IsExactType(want) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression must give a %v, and it gives a %v", want, out)
	}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be planned: %w", err)
	}
	return program, nil
}

// describe gives the first problem with its line and column.
func describe(issues *cel.Issues) error {
	for _, e := range issues.Errors() {
		message, _, _ := strings.Cut(e.Message, "\n")
		return fmt.Errorf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, message)
	}
	return issues.Err()
}

type when struct{ program cel.Program }

// Holds implements fieldperm.When.
func (w when) Holds(change fieldperm.Change) (bool, error) {
	out, err := eval(w.program, map[string]any{varKey: change.Key, varSelf: change.Self, varOldSelf: change.OldSelf})
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("exclusiveWhen gave a %v instead of true or false", out.Type())
	}
	return holds, nil
}

type parameter struct{ program cel.Program }

// Parameter implements fieldperm.Parameterizer.
func (p parameter) Parameter(key string, value, element any) (string, error) {
	out, err := eval(p.program, map[string]any{varKey: key, varValue: value, varElement: element})
	if err != nil {
		return "", err
	}
	text, ok := out.Value().(string)
	if !ok {
		return "", fmt.Errorf("parameter gave a %v instead of text", out.Type())
	}
	return text, nil
}

func eval(program cel.Program, variables map[string]any) (ref.Val, error) {
	out, _, err := program.Eval(variables)
	return out, err
}
