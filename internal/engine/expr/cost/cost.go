package cost

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apiserver/pkg/cel/library"
)

// Kubernetes does not know how large an object is when an expression is
// written. To refuse what could never run, we estimate for an object with lists
// and maps of typicalItems entries and strings of typicalBytes: two nested
// loops over them pass, three do not. The real cost is limited at run time.
const (
	typicalItems = 256
	typicalBytes = 256
)

// Size is the most entries that lists and maps of a request have, and the most bytes of its strings.
type Size struct{ Items, Bytes int }

var (
	// Small covers every request that a person or a controller makes.
	Small = Size{1000, 1024}
	// Tiny covers the many requests with only a few groups.
	Tiny = Size{32, 256}
)

// Expression is a checked expression whose cost is estimated.
type Expression struct {
	Env     *cel.Env
	Checked *cel.Ast
	// Request is the variable whose size is known.
	Request string
	// Selects is the number of selections and calls.
	Selects int
}

// sizes estimates the size of values by their origin.
type sizes struct {
	request *checker.SizeEstimate // lists and maps of the request
	strings *checker.SizeEstimate // strings of the request
	other   func(checker.AstNode) *checker.SizeEstimate
	name    string // of the request
}

// of limits the size of the request.
func of(size Size) sizes {
	return sizes{request: upTo(uint64(size.Items)), strings: upTo(uint64(size.Bytes))}
}

func upTo(n uint64) *checker.SizeEstimate { return &checker.SizeEstimate{Max: n} }

func isText(n checker.AstNode) bool {
	t := n.Type()
	return t != nil && (t.Kind() == cel.StringKind || t.Kind() == cel.BytesKind)
}

func (s sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if path := n.Path(); len(path) > 0 && path[0] == s.name && s.request != nil {
		if isText(n) {
			return s.strings
		}
		return s.request
	}
	if s.other == nil {
		return nil
	}
	return s.other(n)
}

func (sizes) EstimateCallCost(_, _ string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (e Expression) estimate(s sizes) (checker.CostEstimate, error) {
	s.name = e.Request
	return e.Env.EstimateCost(e.Checked, &library.CostEstimator{SizeEstimator: s})
}

// Check refuses an expression whose cost is over the limits: one that is
// expected to be, or one that fails at run time whatever the object.
func (e Expression) Check(estimateLimit, callLimit uint64) error {
	est, err := e.estimate(sizes{other: func(n checker.AstNode) *checker.SizeEstimate {
		if isText(n) {
			return upTo(typicalBytes)
		}
		return upTo(typicalItems)
	}})
	if err != nil {
		return fmt.Errorf("cost of the expression cannot be estimated: %v", err)
	}
	if est.Max > estimateLimit {
		return fmt.Errorf("expression is too expensive: its estimated cost exceeds the limit by a factor of %.1f; "+
			"use fewer nested loops or shorter literals", float64(est.Max)/float64(estimateLimit))
	}
	if est.Min > callLimit {
		return fmt.Errorf("expression is too expensive: its cost is at least %d for every object, the limit is %d",
			est.Min, callLimit)
	}
	return nil
}

// Bounds says when an evaluation certainly stays within the runtime cost limit. Only then may it run untracked, and
// only then may a decision skip a part of the expression that was not evaluated.
type Bounds struct {
	Always bool   // whatever the request and the object are
	Second bool   // whatever the object is, if the request is small
	First  bool   // in the first step, if the request is small
	Cost   uint64 // the most that it costs, if any of these holds
	// Turn is the most that everything outside loops, or one iteration of any loop, costs, if the request is small: n
	// iterations cost at most (n+1) times as much. 0 if there is no such bound.
	Turn uint64
	// Brief is true if the first step is short for a tiny request.
	Brief bool
}

// Bounds estimates with sizes without limit, except for those of a small
// request, and for the later variables in the first step, where they are
// unknown and count as one.
//
// cel-go's estimate is free of charge for field selections on untyped values
// where the runtime charges 1 each; Selects bounds the factor between the two.
func (e Expression) Bounds(callLimit, firstStepLimit uint64) Bounds {
	b := e.bounds(callLimit)
	if b.First && b.Cost > firstStepLimit {
		tiny := of(Tiny)
		tiny.other = unknownSize
		est, err := e.estimate(tiny)
		b.Brief = err == nil && est.Max <= firstStepLimit/uint64(e.Selects+2)
	}
	return b
}

// unknownSize is the size of the later variables in the first step.
func unknownSize(n checker.AstNode) *checker.SizeEstimate {
	if len(n.Path()) == 0 {
		return nil // computed, not read from a variable
	}
	return upTo(1)
}

func (e Expression) bounds(callLimit uint64) Bounds {
	var b Bounds
	most := func(s sizes) (uint64, bool) {
		est, err := e.estimate(s)
		if err != nil || est.Max == math.MaxUint64 || est.Max > callLimit/uint64(e.Selects+2) {
			return 0, false
		}
		return est.Max * uint64(e.Selects+2), true
	}
	within := func(s sizes) bool {
		cost, ok := most(s)
		if ok {
			b.Cost = cost
		}
		return ok
	}
	small := of(Small)
	if b.Always = within(sizes{}); b.Always {
		b.First, b.Second = true, true
		return b
	}
	if b.Second = within(small); b.Second {
		b.First = true
		return b
	}
	if ranges, ok := countable(e.Checked.NativeRep().Expr()); ok {
		oneTurn := small
		oneTurn.other = func(n checker.AstNode) *checker.SizeEstimate {
			if ranges[n.Expr().ID()] {
				return upTo(1)
			}
			return nil
		}
		b.Turn, _ = most(oneTurn)
	}
	small.other = unknownSize
	b.First = within(small)
	return b
}

// countable returns the ranges of the loops of an expression, by ID, if its cost grows only with the iterations of its
// loops, and not with what they build: all, exists and exists_one keep a boolean or a number, map and filter a list.
func countable(e ast.Expr) (ranges map[int64]bool, ok bool) {
	ranges, ok = map[int64]bool{}, true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		loop := e.AsComprehension()
		// A condition of another kind would not be counted, see loopMeter.
		condition := loop.LoopCondition().Kind()
		ok = ok && loop.AccuInit().Kind() == ast.LiteralKind && (condition == ast.CallKind || condition == ast.LiteralKind)
		ranges[loop.IterRange().ID()] = true
	}))
	return ranges, ok && len(ranges) > 0
}
