package expr

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
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

// A small request is one within these bounds: every request that a client of
// flesh and blood or a controller makes.
const (
	smallItems = 1000
	smallBytes = 1024
)

// A tiny request is one of the many that have a few groups.
const (
	tinyItems = 32
	tinyBytes = 256
)

// sizes estimates the size of values by what they come from.
type sizes struct {
	request *checker.SizeEstimate // lists and maps of the request
	strings *checker.SizeEstimate // strings of the request
	other   func(checker.AstNode) *checker.SizeEstimate
}

func upTo(n uint64) *checker.SizeEstimate { return &checker.SizeEstimate{Max: n} }

func isText(n checker.AstNode) bool {
	t := n.Type()
	return t != nil && (t.Kind() == cel.StringKind || t.Kind() == cel.BytesKind)
}

func (s sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if path := n.Path(); len(path) > 0 && path[0] == varRequest && s.request != nil {
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

func estimate(env *cel.Env, checked *cel.Ast, s sizes) (checker.CostEstimate, error) {
	return env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: s})
}

// checkCost refuses an expression whose cost is over the limits: one that is
// expected to be, or one that fails at run time whatever the object.
func (c *Compiler) checkCost(env *cel.Env, checked *cel.Ast) Issues {
	est, err := estimate(env, checked, sizes{other: func(n checker.AstNode) *checker.SizeEstimate {
		if isText(n) {
			return upTo(typicalBytes)
		}
		return upTo(typicalItems)
	}})
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

// bounds says when an evaluation certainly stays within the runtime cost
// limit. Only then may it go untracked, and only then may a decision skip a
// part of the expression that has not been evaluated.
type bounds struct {
	always bool   // whatever the request and the object are
	second bool   // whatever the object is, if the request is small
	first  bool   // in the first step, if the request is small
	cost   uint64 // the most that it costs, if any of these holds
	// turn is the most that everything outside of loops, or one turn of any loop, costs, if the request is small: n
	// turns of loops cost at most (n+1) times as much. 0 if there is no such bound.
	turn uint64
	// brief tells that the first step is short if the request is tiny.
	brief bool
}

// boundsOf estimates with sizes without limit, except for those of a small
// request, and for the later variables in the first step, where they are
// unknown and count as one.
//
// cel-go's estimate is free of charge for field selections on untyped values
// where the runtime charges 1 each; selects, the number of selections and calls
// in the expression, bounds the factor between the two.
func (c *Compiler) boundsOf(env *cel.Env, checked *cel.Ast, selects int) bounds {
	b := c.costBounds(env, checked, selects)
	if b.first && b.cost > firstStepLimit {
		tiny := sizes{request: upTo(tinyItems), strings: upTo(tinyBytes), other: unknownSize}
		est, err := estimate(env, checked, tiny)
		b.brief = err == nil && est.Max <= firstStepLimit/uint64(selects+2)
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

func (c *Compiler) costBounds(env *cel.Env, checked *cel.Ast, selects int) bounds {
	var b bounds
	most := func(s sizes) (uint64, bool) {
		est, err := estimate(env, checked, s)
		if err != nil || est.Max == math.MaxUint64 || est.Max > c.callLimit/uint64(selects+2) {
			return 0, false
		}
		return est.Max * uint64(selects+2), true
	}
	within := func(s sizes) bool {
		cost, ok := most(s)
		if ok {
			b.cost = cost
		}
		return ok
	}
	small := sizes{request: upTo(smallItems), strings: upTo(smallBytes)}
	if b.always = within(sizes{}); b.always {
		b.first, b.second = true, true
		return b
	}
	if b.second = within(small); b.second {
		b.first = true
		return b
	}
	if ranges, ok := countable(checked.NativeRep().Expr()); ok {
		oneTurn := small
		oneTurn.other = func(n checker.AstNode) *checker.SizeEstimate {
			if ranges[n.Expr().ID()] {
				return upTo(1)
			}
			return nil
		}
		b.turn, _ = most(oneTurn)
	}
	small.other = unknownSize
	b.first = within(small)
	return b
}

// countable returns what the loops of an expression go over, by ID, if the cost of the expression grows with the turns
// of its loops and with nothing else that they make: all, exists and exists_one keep a boolean or a number, map and
// filter a list.
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

// isSmall reports whether a request is within the bounds of a small one.
func (r *Request) isSmall() bool { return r.within(smallItems, smallBytes) }

func (r *Request) isTiny() bool { return r.within(tinyItems, tinyBytes) }

func (r *Request) within(items, bytes int) bool {
	if r == nil || len(r.Groups) > items || len(r.Extra) > items ||
		len(r.FieldSelector) > items || len(r.LabelSelector) > items {
		return false
	}
	short := func(ss ...string) bool { return short(bytes, ss) }
	ok := short(r.User, r.UID, r.Verb, r.APIGroup, r.APIVersion, r.Resource, r.Subresource, r.Namespace, r.Name) &&
		short(r.Groups...)
	for k, v := range r.Extra {
		ok = ok && len(v) <= items && short(k) && short(v...)
	}
	for _, f := range r.FieldSelector {
		ok = ok && short(f.Field, f.Value)
	}
	for _, l := range r.LabelSelector {
		values := l.ValuesUnsorted()
		ok = ok && len(values) <= items && short(l.Key()) && short(values...)
	}
	return ok
}

func short(bytes int, ss []string) bool {
	for _, s := range ss {
		if len(s) > bytes {
			return false
		}
	}
	return true
}
