package managed

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"proviso.dev/proviso/internal/engine/expr"
)

// guard is one admission policy, with upstream's evaluator.
type guard struct {
	policy    *admissionv1.ValidatingAdmissionPolicy
	matcher   matchconditions.Matcher
	validator validating.Validator
	// chooses is true if the match looks at the object, judges if the rest does, and asksPlace if anything looks at the
	// namespace. asksCaller is true if anything but the match looks at who the caller is: knowing more about a caller,
	// except that it is a cluster admin, does not end a match. Who holds what frees a caller is listed as such.
	chooses, judges, asksPlace, asksCaller bool
}

func newGuard(p *admissionv1.ValidatingAdmissionPolicy) (*guard, error) {
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	known := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []admissioncel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, known, environment.StoredExpressions)
	var match, checks, messages []admissioncel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		match = append(match, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		checks = append(checks, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, nil)
	}
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(match, known, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	validator := validating.NewValidator(compiler.CompileCondition(checks, known, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, known, environment.StoredExpressions), compiler.CompileCondition(messages, known, environment.StoredExpressions), p.Spec.FailurePolicy, nil)
	g := &guard{policy: p, matcher: matcher, validator: validator}
	g.look()
	return g, validator.CompileError()
}

// look finds out what a policy looks at.
func (g *guard) look() {
	for _, m := range g.policy.Spec.MatchConditions {
		g.chooses = g.chooses || expr.MayRead(m.Expression, expr.Field{})
	}
	var rest []string
	for _, v := range g.policy.Spec.Variables {
		rest = append(rest, v.Expression)
	}
	for _, v := range g.policy.Spec.Validations {
		rest = append(rest, v.Expression)
	}
	for _, text := range rest {
		g.judges = g.judges || expr.MayRead(text, expr.Field{})
		g.asksPlace = g.asksPlace || expr.MayReadNamespace(text, expr.Field{})
		g.asksCaller = g.asksCaller || expr.MayReadCaller(text)
	}
}

// admission asks the policies. A policy that matches and looks at what is not known does not decide.
func (e *Enforced) admission(ctx context.Context, request *seen, reason string) (Answer, error) {
	var open Answer
	depends := func(g *guard) {
		open.Decision, open.By = "Conditional", append(open.By, e.originOf(g))
		open.Messages = append(open.Messages, g.message())
	}
	for _, g := range e.guards {
		if !g.constrains(request) {
			continue
		}
		if g.undecided(request) {
			if match := g.matcher.Match(ctx, request.forMatch(), nil, e.rbac); match.Matches || match.Error != nil {
				depends(g)
			}
			continue
		}
		result := g.validator.Validate(ctx, request.GetResource(), request.VersionedAttributes, nil, request.place, celconfig.RuntimeCELCostBudget, e.rbac)
		for _, d := range result.Decisions {
			if d.Action == validating.ActionDeny {
				if request.unidentified && g.asksCaller {
					depends(g)
					break
				}
				return Answer{Decision: "Deny", Reason: d.Message, By: []string{e.originOf(g)}}, nil
			}
		}
	}
	if open.Decision != "" {
		open.Reason = "it depends on the object: " + strings.Join(open.By, ", ")
		return open, nil
	}
	return Answer{Decision: "Allow", Reason: reason, By: e.allowedBy(reason)}, nil
}

// undecided reports whether a policy looks at what is not known of a request. A name that is known stands for the
// object in a match. A connection has no object.
func (g *guard) undecided(request *seen) bool {
	if request.somewhere && g.asksPlace {
		return true
	}
	return request.blind != nil && (g.judges && request.GetOperation() != admission.Connect || g.chooses && request.GetName() == "")
}

// forMatch is the request by which a policy is chosen. An object that is not known has no name, and policies about
// names match it.
func (s *seen) forMatch() *admission.VersionedAttributes {
	if s.blind != nil {
		return s.blind
	}
	return s.VersionedAttributes
}

func (e *Enforced) originOf(g *guard) string {
	return e.origins["ValidatingAdmissionPolicy /"+g.policy.Name]
}

// constrains reports whether a policy is about the resource and the operation.
func (g *guard) constrains(request admission.Attributes) bool {
	if g.policy.Spec.MatchConstraints == nil {
		return false
	}
	return slices.ContainsFunc(g.policy.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		matcher := rules.Matcher{Rule: r.RuleWithOperations, Attr: request}
		return matcher.Matches() && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, request.GetName()))
	})
}

// message is what a policy says when it refuses.
func (g *guard) message() string {
	if n := len(g.policy.Spec.Validations); n > 0 {
		return g.policy.Spec.Validations[n-1].Message
	}
	return ""
}
