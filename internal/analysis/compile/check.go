package compile

import (
	"encoding/json"
	"fmt"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Limits of a stock server.
const (
	// maxExpression is how long an expression can be that its parser reads.
	maxExpression = 100_000
	// maxObject is how large an object can be, well below what etcd takes.
	maxObject = 1 << 20
)

// expression is one as upstream's compiler takes it.
type expression string

func (e expression) GetExpression() string    { return string(e) }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// newChecker is upstream's compiler of admission policies.
func newChecker() admissioncel.Compiler {
	return admissioncel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// checks reports whether a stock server would take an expression.
func (c *compiler) checks(text string) error {
	if len(text) > maxExpression {
		return fmt.Errorf("its policy has an expression of %d bytes, and a server takes %d: split the rule or its bindings", len(text), maxExpression)
	}
	// A dyn result may turn out to be bool at evaluation.
	result := c.checker.CompileCELExpression(expression(text+" ? true : false"), admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	if result.Error != nil {
		return fmt.Errorf("a stock server does not compile its condition: %s", oneLine(result.Error.Detail))
	}
	return nil
}

// checkPolicy reports whether a stock server would take a policy.
func (c *compiler) checkPolicy(p *admissionv1.ValidatingAdmissionPolicy) error {
	for _, m := range p.Spec.MatchConditions {
		if err := c.checks(m.Expression); err != nil {
			return err
		}
	}
	for _, v := range p.Spec.Variables { // validations only join them
		if err := c.checks(v.Expression); err != nil {
			return err
		}
	}
	return sized(p)
}

// sized reports whether an object fits.
func sized(object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if len(data) > maxObject {
		return fmt.Errorf("an object would have %d bytes, and the limit is %d: split the role or its bindings", len(data), maxObject)
	}
	return nil
}
