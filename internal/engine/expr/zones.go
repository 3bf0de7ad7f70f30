package expr

import (
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // zones mean the same on every machine

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// zoned are the functions of a timestamp that take a zone.
var zoned = map[string]bool{
	"getDate": true, "getDayOfMonth": true, "getDayOfWeek": true, "getDayOfYear": true, "getFullYear": true,
	"getHours": true, "getMilliseconds": true, "getMinutes": true, "getMonth": true, "getSeconds": true,
}

// offset is a zone given as an offset from UTC.
var offset = regexp.MustCompile(`^[+-]?\d\d:\d\d$`)

// checkZones finds unknown zones. A zone that is not a literal fails when it is evaluated.
func checkZones(checked *cel.Ast) (issues Issues) {
	info := checked.NativeRep().SourceInfo()
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !zoned[e.AsCall().FunctionName()] || len(e.AsCall().Args()) != 1 {
			return
		}
		arg := e.AsCall().Args()[0]
		if arg.Kind() != ast.LiteralKind {
			return
		}
		name, ok := arg.AsLiteral().(types.String)
		if !ok || offset.MatchString(string(name)) {
			return
		}
		if _, err := time.LoadLocation(string(name)); err != nil || name == "Local" {
			at := info.GetStartLocation(arg.ID())
			issues = append(issues, Issue{Line: at.Line(), Column: at.Column() + 1, Message: fmt.Sprintf("there is no time zone %q; give one such as \"Europe/Berlin\" or \"+01:00\"", string(name))})
		}
	}))
	return issues
}
