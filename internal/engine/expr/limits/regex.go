package limits

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// regexFunctions have a pattern, at this position with the receiver counted.
var regexFunctions = map[string]int{"matches": 1, "find": 1, "findAll": 1}

// maxPattern bounds the steps of a regular expression. `x{1000}` has a
// thousand, and each of them costs time for every byte that is matched.
const maxPattern = 5000

// ErrLargePattern is a pattern with too many steps.
var ErrLargePattern = errors.New("it is too large")

// PatternSteps returns the number of steps of a regular expression. Kubernetes' cost depends on the length of its text,
// which says little about its cost.
func PatternSteps(pattern string) (int, error) {
	if len(pattern) > MaxBytes {
		return 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrLargePattern, len(pattern), MaxBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	size := regexSteps(parsed)
	if size > maxPattern {
		return 0, fmt.Errorf("%w: %d steps with its repetitions written out, the limit is %d", ErrLargePattern, size, maxPattern)
	}
	return size, nil
}

func regexSteps(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n = satAdd(n, regexSteps(sub))
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = satAdd(n, len(re.Rune))
	case syntax.OpCharClass:
		n = satAdd(n, len(re.Rune)/8)
	case syntax.OpRepeat:
		n = satMul(n, max(re.Min, re.Max, 1))
	}
	return n
}

// PatternOf returns the constant pattern of a call that matches one.
func PatternOf(call ast.CallExpr) (pattern string, id int64, constant bool) {
	at, ok := regexFunctions[call.FunctionName()]
	args := call.Args()
	if call.IsMemberFunction() {
		at--
	}
	if !ok || at < 0 || at >= len(args) {
		return "", 0, false
	}
	pattern, constant = text.StringLiteral(args[at])
	return pattern, args[at].ID(), constant
}

// TakesPattern reports whether a function has a pattern.
func TakesPattern(function string) bool { return regexFunctions[function] > 0 }
