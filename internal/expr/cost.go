package expr

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apiserver/pkg/cel/library"
)

// Kubernetes does not know how large an object is when an expression is
// written. To refuse what could never run, we estimate for an object with
// lists and maps of typicalItems entries and strings of typicalBytes: two
// nested loops over them pass, three do not. What really happens is limited at
// run time.
const (
	typicalItems = 256
	typicalBytes = 256
)

// typicalSizes estimates the size of values of which nothing is known.
type typicalSizes struct{}

func (typicalSizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	limit := uint64(typicalItems)
	if t := element.Type(); t != nil && (t.Kind() == cel.StringKind || t.Kind() == cel.BytesKind) {
		limit = typicalBytes
	}
	return &checker.SizeEstimate{Min: 0, Max: limit}
}

func (typicalSizes) EstimateCallCost(_, _ string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	return nil
}

// checkCost refuses an expression whose cost is over the limits: one that is
// expected to be, or one that fails at run time whatever the object.
func (c *Compiler) checkCost(env *cel.Env, ast *cel.Ast) Issues {
	est, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: typicalSizes{}})
	if err != nil {
		return wholeIssue("cost of the expression cannot be estimated: %v", err)
	}
	if est.Max > c.estimateLimit {
		return wholeIssue("expression is too expensive: its estimated cost exceeds the limit by a factor of %.1f; "+
			"use fewer nested loops or shorter literals", float64(est.Max)/float64(c.estimateLimit))
	}
	if est.Min > c.callLimit {
		return wholeIssue("expression is too expensive: its cost is at least %d for every object, the limit is %d",
			est.Min, c.callLimit)
	}
	return nil
}

// neverTooCostly reports whether no object, however large, can make the
// expression exceed the runtime limit. Only then may a decision skip a part of
// the expression that it has not evaluated.
//
// cel-go's estimate is free of charge for field selections on untyped values
// where the runtime charges 1 each; selects, the number of selections in the
// expression, bounds the factor between the two.
func (c *Compiler) neverTooCostly(env *cel.Env, ast *cel.Ast, selects int) bool {
	est, err := env.EstimateCost(ast, &library.CostEstimator{})
	if err != nil || est.Max == math.MaxUint64 {
		return false
	}
	return est.Max <= c.callLimit/uint64(selects+2)
}
